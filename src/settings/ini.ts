/** One `key = value` line. `section` is null above the first section header; `line` counts from 1. */
export interface IniEntry {
  section: string | null
  key: string
  value: string
  line: number
}

/** A line that can't be read. `key` is the setting it concerns, as far as that can be told. Never quotes a value. */
export interface IniProblem {
  section: string | null
  key: string | null
  line: number
  message: string
  remedy: string
}

/**
 * Reads INI text. Comments are whole lines that begin with `#` or `;`, so values may contain both. The first `=` or
 * `:` of a line ends the key. Values are trimmed and otherwise literal: no quotes, no escapes, no interpolation. A
 * value is one line; an indented line below a setting is a problem, because other readers would append it. A key
 * given twice in one section is a problem that names both lines; the first counts.
 */
export function parseIni(text: string): { entries: IniEntry[]; problems: IniProblem[] } {
  const entries: IniEntry[] = []
  const problems: IniProblem[] = []
  const firstLines = new Map<string, number>()
  let section: string | null = null
  let previousKey: string | null = null

  const lines = text.split(/\r\n|\n|\r/)
  for (const [index, raw] of lines.entries()) {
    const line = index + 1
    // This takes a byte order mark away as well.
    const content = raw.trim()
    const report = (key: string | null, message: string, remedy: string) =>
      problems.push({ section, key, line, message, remedy })

    if (content === '' || content.startsWith('#') || content.startsWith(';')) continue
    if (previousKey !== null && /^[ \t]/.test(raw)) {
      const continued = 'is indented, as if it continued the line above'
      report(
        previousKey,
        continued,
        'write the value on one line, and every setting at the start of its line',
      )
      continue
    }
    if (content.startsWith('[')) {
      const header = /^\[([^\]]+)\]$/.exec(content)
      if (!header) report(null, 'is not a section header', 'write [name], and nothing else on that line')
      section = header ? header[1]!.trim() : section
      previousKey = null
      continue
    }

    const pair = /^([^=:]*)[=:](.*)$/.exec(content)
    const key = pair?.[1]?.trim() ?? ''
    previousKey = key
    if (!pair) {
      report(/^\S+/.exec(content)![0], 'has no "="', 'write key = value')
    } else if (key === '') {
      report(null, 'has no key before "="', 'write key = value')
    } else if (firstLines.has(`${section}\n${key}`)) {
      const firstLine = firstLines.get(`${section}\n${key}`)!
      report(key, `is given twice, first on line ${firstLine}`, 'keep one of the two')
    } else {
      firstLines.set(`${section}\n${key}`, line)
      entries.push({ section, key, value: pair[2]!.trim(), line })
    }
  }
  return { entries, problems }
}

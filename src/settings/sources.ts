import { join } from 'node:path'
import { quote, reasonOf, type Reading } from './readers.ts'
import {
  collectionGate,
  collectionSettings,
  removedSettings,
  settingsSchema,
  type AnySetting,
} from './schema.ts'
import { nearest } from './nearest.ts'

/** One problem with the settings; never quotes a secret. */
export interface SettingsProblem {
  /** `FILE:LINE`, `FILE`, or `environment NAME`; null for a default. */
  where: string | null
  /** The key as in a file: `service.port`. Null if the line is not a setting. */
  key: string | null
  /** The problem, with the remedy after a colon. */
  problem: string
}

export interface SettingsSources {
  /** The settings file; null if there is none. Problems show its path as given. */
  file: { path: string; text: string } | null
  environment: Record<string, string | undefined>
  /** Reads a file; throws if there is none. */
  readFile(path: string): string
}

/**
 * Collects the given settings by name, with problems and warnings, before their values are parsed. The environment overrides the file, and
 * the file overrides the credentials directory. `isUnread`: the file has another format, so nothing is known about its settings.
 */
export function collectSettings({ file, environment, readFile }: SettingsSources) {
  // A folder with one file per secret setting, as systemd's LoadCredential provides it.
  const credentialsDirectory = environment.CREDENTIALS_DIRECTORY
  const given = new Map<string, { text: string; source: string }>()
  const problems: SettingsProblem[] = []
  const warnings: string[] = []

  for (const [name, { secret }] of Object.entries<AnySetting>(settingsSchema)) {
    if (!secret || !credentialsDirectory) continue
    const source = `credential ${name}`
    try {
      given.set(name, { text: readFile(join(credentialsDirectory, name)).trim(), source })
    } catch (cause) {
      if ((cause as { code?: unknown }).code === 'ENOENT') continue
      const problem = `cannot be read (${reasonOf(cause)}): make the credential readable for the service`
      problems.push({ where: source, key: `service.${name}`, problem })
    }
  }

  const firstLines = new Map<string, number>()
  const lines = file ? parseIni(file.text) : []
  for (const { section, key, line, reading } of lines) {
    const where = `${file!.path}:${line}`
    const name = key === null ? null : settingName(section, key)
    const refuse = (problem: string, shownKey = name && `service.${name}`) => {
      problems.push({ where, key: shownKey, problem })
    }
    if ('problem' in reading) {
      // Other programs that use the same file may have other rules for their sections.
      if (name !== null || section === null || isServiceSection(section)) refuse(reading.problem)
    } else if (name === null) {
      const meant = withoutPrefix(key!)
      const remedy = `write service.${meant} = …, or move it into a section [service]`
      if (isKnown(meant)) refuse(`is outside [service] and lacks the prefix "service.": ${remedy}`, key)
    } else if (removedSettings.has(name)) warnings.push(`${where}: service.${name}: ${removed}`)
    else if (!isKnown(name)) refuse(`unknown setting: ${remedyForUnknown(name)}`)
    else if (firstLines.has(name))
      refuse(`is given twice, first on line ${firstLines.get(name)}: keep one of the two`)
    else {
      firstLines.set(name, line)
      if (given.has(name))
        warnings.push(`${where}: service.${name}: overrides the credential: remove this line`)
      given.set(name, { text: reading.value, source: where })
    }
  }

  for (const [variable, text] of Object.entries(environment)) {
    if (text === undefined || !/^SERVICE_/i.test(variable)) continue
    const name = variable.slice('SERVICE_'.length).toLowerCase()
    // Ignores the case of collection settings, because collection names may contain characters that shells don't allow in variables.
    if (collectionGate(name) !== null || (isKnown(name) && variable === variable.toUpperCase())) {
      const source = `environment ${variable}`
      const earlier = given.get(name)?.source
      // Which of the two would count depends on their order, which is arbitrary.
      if (earlier?.startsWith('environment ')) {
        const problem = `is given twice, first as ${earlier}: keep one of the two`
        problems.push({ where: source, key: `service.${name}`, problem })
      }
      given.set(name, { text: unquote(text.trim()), source })
      continue
    }
    if (removedSettings.has(name)) warnings.push(`environment ${variable}: ${removed}`)
    // Only a warning, because variables of other programs may begin with SERVICE_ too.
    const suggestion = name.startsWith('record_') ? collectionSettings.put.form : nearest(name, names)
    if (suggestion === null) continue
    const meant = `SERVICE_${suggestion.toUpperCase()}`
    warnings.push(`environment: ${quote(variable)} is not a setting and is ignored: did you mean ${meant}?`)
  }
  return { given, problems, warnings, isUnread: lines.some(({ isWholeFile }) => isWholeFile) }
}

const names = Object.keys(settingsSchema)

const removed = 'this setting no longer exists and is ignored: remove it'

/** The name of the setting in a line of the file; null for a line of another program. */
function settingName(section: string | null, key: string): string | null {
  const prefixed = /^service\./i.test(key)
  if (!prefixed && !isServiceSection(section)) return null
  const name = prefixed ? key.slice('service.'.length) : key
  const gate = collectionGate(name)
  return gate ? `record_${gate.collection}_${gate.method}_enabled` : name
}

/**
 * The key as it would be after `service.`: without similar prefixes, and without what shells, environment variables and JSON add to a name.
 */
function withoutPrefix(key: string): string {
  const name = key.replace(/^(?:export\s{1,16})?["']?(?:service_)?/i, '').replace(/["']$/, '')
  return name
    .slice(name.lastIndexOf('.') + 1)
    .trim()
    .toLowerCase()
}

// Ignores case, because an unrecognized section would silently leave its settings at their defaults.
function isServiceSection(section: string | null): boolean {
  return section?.toLowerCase() === 'service'
}

function isKnown(name: string): boolean {
  return Object.hasOwn(settingsSchema, name) || collectionGate(name) !== null
}

function remedyForUnknown(name: string): string {
  const meant = withoutPrefix(name)
  const { put, delete: removal } = collectionSettings
  const isOfCollection = meant.startsWith('record_') && !isKnown(meant)
  if (isOfCollection) return `did you mean service.${put.form} or ${removal.form}?`
  const suggestion = isKnown(meant) ? meant : nearest(meant, names)
  return suggestion ? `did you mean service.${suggestion}?` : 'remove it, or see "sync-bridge init" for all'
}

/** A line that is neither a comment nor a section header. */
interface IniLine {
  /** Null before the first section header. */
  section: string | null
  /** Null if the line has none. */
  key: string | null
  /** Counts from 1. */
  line: number
  /** Its value, or why the line is invalid; never quotes a value. */
  reading: Reading<string>
  /** The problem is the format of the file. */
  isWholeFile?: true
}

/**
 * Parses INI text. Comments are whole lines starting with `#` or `;`, so values may contain both. The first `=` or `:` ends the key. Values
 * are trimmed and unquoted, otherwise literal: no escapes, no interpolation, no continuation lines. An indented line below a setting is a
 * problem, because other parsers would append it. JSON or text that was not UTF-8 is one problem of its first line.
 */
export function parseIni(text: string): IniLine[] {
  const rows = text.split(/\r\n|\n|\r/)
  const otherFormat = findOtherFormat(rows)
  if (otherFormat) return [otherFormat]
  let section: string | null = null
  let previousKey: string | null = null
  return rows.flatMap((row, index): IniLine[] => {
    // Also removes a byte order mark.
    const content = row.trim()
    const line = index + 1
    const refuse = (key: string | null, problem: string) => [{ section, key, line, reading: { problem } }]

    // Also in a comment, because the editor may show the rest as a setting on a line of its own.
    if (/[\u2028\u2029]/.test(content))
      return refuse(null, 'contains U+2028 or U+2029, which end no line here: use line feeds')
    if (content === '' || content.startsWith('#') || content.startsWith(';')) return []
    if (previousKey !== null && /^[ \t]/.test(row)) {
      const remedy = 'write the value on one line, and every setting at the start of its line'
      return refuse(previousKey, `is indented, as if it continued the line above: ${remedy}`)
    }
    if (content.startsWith('[')) {
      previousKey = null
      const header = /^\[([^\]]+)\]$/.exec(content)?.[1]
      section = header?.trim() ?? section
      return header === undefined
        ? refuse(null, 'is not a section header: write [name], and nothing else on that line')
        : []
    }
    const pair = /^([^=:]*)[=:](.*)$/.exec(content)
    const key = pair?.[1]!.trim() ?? ''
    previousKey = key
    if (!pair) return refuse(/^\S+/.exec(content)![0], 'has no "=": write key = value')
    if (key === '') return refuse(null, 'has no key before "=": write key = value')
    return [{ section, key, line, reading: { value: unquote(pair[2]!.trim()) } }]
  })
}

// Other programs require quotes, so operators write them; env files of containers keep them.
function unquote(text: string): string {
  const [, inDouble, inSingle] = /^(?:"([^"]*)"|'([^']*)')$/.exec(text) ?? []
  return inDouble ?? inSingle ?? text
}

// Files are decoded as UTF-8, so invalid bytes are U+FFFD, and UTF-16 shows by its zero bytes.
function findOtherFormat(rows: string[]): IniLine | null {
  const refuse = (index: number, problem: string): IniLine => {
    return { section: null, key: null, line: index + 1, reading: { problem }, isWholeFile: true }
  }
  const damaged = rows.findIndex((row) => /[\0\uFFFD]/.test(row))
  if (damaged !== -1) {
    const found = rows.some((row) => row.includes('\0')) ? 'UTF-16 or binary' : 'not UTF-8'
    return refuse(damaged, `is ${found}: save the file as UTF-8`)
  }
  const first = rows.findIndex((row) => row.trim() !== '')
  if (!rows[first]?.trimStart().startsWith('{')) return null
  return refuse(first, 'is JSON: write one line "service.<name> = value" for each setting')
}

import { fileIn, quote, reasonOf } from './readers.ts'
import { collectionGate, collectionSettings, settingsSchema } from './schema.ts'
import { nearest } from './spelling.ts'

import type { AnySetting } from './schema.ts'

/** One thing that is wrong with the settings; never quotes a secret. */
export interface SettingsProblem {
  /** `FILE:LINE`, `FILE`, or `environment NAME`. */
  where: string
  /** As it stands in a file: `service.port`. Null when the line is no setting at all. */
  key: string | null
  message: string
  remedy: string
}

export interface SettingsSources {
  /** The settings file, or null when there is none. Its path is shown in problems as it is given. */
  file: { path: string; text: string } | null
  environment: Record<string, string | undefined>
  /** The text of a file; throws when there is none. */
  readFile(path: string): string
  /** Folder with a file per secret setting, as systemd's LoadCredential provides it. */
  credentialsDirectory?: string
}

/** A setting that was given, before its value is read. */
interface GivenSetting {
  name: string
  text: string
  source: string
}

/** The settings given, by name, their problems, and what may be a mistake. */
interface CollectedSettings {
  given: Map<string, GivenSetting>
  problems: SettingsProblem[]
  warnings: string[]
}

/** Collects the settings given. The environment outweighs the file, and the file outweighs the credentials directory. */
export function collectSettings(sources: SettingsSources): CollectedSettings {
  const problems: SettingsProblem[] = []
  const warnings: string[] = []
  const given = [
    ...readCredentials(sources, problems),
    ...readFile(sources.file, problems, warnings),
    ...readEnvironment(sources.environment, warnings),
  ]
  return { given: new Map(given.map((setting) => [setting.name, setting])), problems, warnings }
}

function readCredentials(sources: SettingsSources, problems: SettingsProblem[]): GivenSetting[] {
  const folder = sources.credentialsDirectory
  if (!folder) return []
  return Object.entries<AnySetting>(settingsSchema).flatMap(([name, setting]) => {
    if (!setting.secret) return []
    try {
      return [{ name, text: sources.readFile(fileIn(folder, name)).trim(), source: `credential ${name}` }]
    } catch (cause) {
      const absent = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
      if (!absent) {
        const message = `cannot be read (${reasonOf(cause)})`
        const remedy = 'make the credential readable for the service'
        problems.push({ where: `credential ${name}`, key: `service.${name}`, message, remedy })
      }
      return []
    }
  })
}

function readFile(
  file: SettingsSources['file'],
  problems: SettingsProblem[],
  warnings: string[],
): GivenSetting[] {
  if (!file) return []
  const report = (line: number, key: string | null, message: string, remedy: string) =>
    problems.push({ where: `${file.path}:${line}`, key, message, remedy })
  const { entries, problems: unreadable } = parseIni(file.text)
  for (const { section, key, line, message, remedy } of unreadable) {
    const name = key === null ? null : nameOf(section, key)
    // Other programs that use the same file may have other rules for their sections.
    if (name === null && section !== null && !isServiceSection(section)) continue
    report(line, name === null ? null : `service.${name}`, message, remedy)
  }

  const lines = new Map<string, number>()
  const foreignSections = new Set<string | null>()
  return entries.flatMap(({ section, key, value: text, line }) => {
    const name = nameOf(section, key)
    if (name === null) {
      const meant = withoutPrefix(key)
      if (isKnown(meant)) {
        const message = 'is a setting outside [service] and without its prefix'
        report(line, key, message, `write service.${meant} = …, or move it into a section [service]`)
      } else if (!foreignSections.has(section) && isLikeService(section)) {
        const remedy = 'name it [service] if its lines are settings of sync-bridge'
        warnings.push(`${file.path}:${line}: section ${quote(`[${section}]`)} is not read: ${remedy}`)
      }
      foreignSections.add(section)
      return []
    }
    const firstLine = lines.get(name)
    lines.set(name, firstLine ?? line)
    if (!isKnown(name)) {
      report(line, `service.${name}`, 'is no setting', remedyForUnknown(name))
      return []
    }
    if (firstLine !== undefined) {
      report(line, `service.${name}`, `is given twice, first on line ${firstLine}`, 'keep one of the two')
      return []
    }
    return [{ name, text, source: `${file.path}:${line}` }]
  })
}

function readEnvironment(
  environment: Record<string, string | undefined>,
  warnings: string[],
): GivenSetting[] {
  return Object.entries(environment).flatMap(([variable, text]) => {
    if (text === undefined || !/^SERVICE_/i.test(variable)) return []
    const name = variable.slice('SERVICE_'.length).toLowerCase()
    // Names of collections may contain what shells don't allow in variables, so their case is ignored.
    const isSetting = collectionGate(name) !== null || (isKnown(name) && variable === variable.toUpperCase())
    if (isSetting) return [{ name, text: text.trim(), source: `environment ${variable}` }]
    // Variables of other programs may begin with SERVICE_ too, so this is no problem.
    const suggestion = name.startsWith('record_') ? collectionSettings.put.form : nearestSetting(name)
    if (suggestion) {
      const meant = `SERVICE_${suggestion.toUpperCase()}`
      warnings.push(`environment: ${quote(variable)} is no setting and is ignored: did you mean ${meant}?`)
    }
    return []
  })
}

/** The setting that a line of the file is meant to be; null for a line of another program. */
function nameOf(section: string | null, key: string): string | null {
  const prefixed = /^service\./i.test(key)
  if (!prefixed && !isServiceSection(section)) return null
  const name = prefixed ? key.slice('service.'.length) : key
  const gate = collectionGate(name)
  return gate ? `record_${gate.collection}_${gate.method}_enabled` : name
}

/** A key as it would be after `service.`: without what shells, environment variables and JSON add to a name. */
function withoutPrefix(key: string): string {
  const name = key.replace(/^(?:export\s{1,16})?["']?(?:service_)?/i, '').replace(/["']$/, '')
  return name.toLowerCase()
}

// In any case of letters, because settings in a section that is not recognised would silently keep their defaults.
function isServiceSection(section: string | null): boolean {
  return section?.toLowerCase() === 'service'
}

function isLikeService(section: string | null): boolean {
  if (section === null) return false
  return /service|bridge/i.test(section) || nearest(section, ['service', 'settings']) !== null
}

function isKnown(name: string): boolean {
  return Object.hasOwn(settingsSchema, name) || collectionGate(name) !== null
}

function nearestSetting(name: string): string | null {
  return nearest(name, Object.keys(settingsSchema))
}

function remedyForUnknown(name: string): string {
  const meant = withoutPrefix(name)
  const suggestion = isKnown(meant)
    ? meant
    : meant.startsWith('record_')
      ? `${collectionSettings.put.form} or ${collectionSettings.delete.form}`
      : nearestSetting(meant)
  return suggestion ? `did you mean service.${suggestion}?` : 'remove it, or see "sync-bridge init" for all'
}

/** One `key = value` line. `section` is null above the first section header; `line` counts from 1. */
interface IniEntry {
  section: string | null
  key: string
  value: string
  line: number
}

/** A line that can't be read. `key` is the setting it concerns, as far as that can be told. Never quotes a value. */
interface IniProblem {
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
 * given twice in one section is a problem that names both lines; the first counts. Text that is JSON, or was not
 * UTF-8 before it became text, is one problem of the first line that shows it.
 */
export function parseIni(text: string): { entries: IniEntry[]; problems: IniProblem[] } {
  const lines = text.split(/\r\n|\n|\r/)
  const otherFormat = findOtherFormat(lines)
  if (otherFormat) return { entries: [], problems: [otherFormat] }
  const entries: IniEntry[] = []
  const problems: IniProblem[] = []
  const firstLines = new Map<string, number>()
  let section: string | null = null
  let previousKey: string | null = null

  for (const [index, raw] of lines.entries()) {
    const line = index + 1
    // This takes a byte order mark away as well.
    const content = raw.trim()
    const report = (key: string | null, message: string, remedy: string) =>
      problems.push({ section, key, line, message, remedy })

    if (content === '' || content.startsWith('#') || content.startsWith(';')) continue
    if (previousKey !== null && /^[ \t]/.test(raw)) {
      const remedy = 'write the value on one line, and every setting at the start of its line'
      report(previousKey, 'is indented, as if it continued the line above', remedy)
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

// Files are decoded as UTF-8: every byte that is not becomes U+FFFD, and UTF-16 shows by its zero bytes.
function findOtherFormat(lines: string[]): IniProblem | null {
  const damaged = lines.findIndex((line) => /[\0\uFFFD]/.test(line))
  const first = lines.findIndex((line) => line.trim() !== '')
  const problem = (index: number, message: string, remedy: string): IniProblem => {
    return { section: null, key: null, line: index + 1, message, remedy }
  }
  if (damaged !== -1) {
    const message = lines.some((line) => line.includes('\0')) ? 'is UTF-16 or binary' : 'is not UTF-8'
    return problem(damaged, message, 'save the file as UTF-8')
  }
  if (first !== -1 && lines[first]!.trimStart().startsWith('{')) {
    return problem(first, 'is JSON', 'write one line "service.<name> = value" for each setting')
  }
  return null
}

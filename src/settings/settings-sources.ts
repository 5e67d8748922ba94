import { fileIn } from './file-names.ts'
import { parseIni } from './ini.ts'
import { quote, reasonOf } from './setting-readers.ts'
import { collectionGate, collectionSettings, settingsSchema } from './settings-schema.ts'
import { nearest } from './spelling.ts'

import type { AnySetting } from './settings-schema.ts'

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

/** A setting that somebody gave, before its value is looked at. */
export interface GivenSetting {
  name: string
  text: string
  source: string
}

/**
 * Collects what was given, by name: the environment outweighs the file, and that the credentials directory. What can't
 * be a setting is added to the problems.
 */
export function collectSettings(
  sources: SettingsSources,
  problems: SettingsProblem[],
): Map<string, GivenSetting> {
  const given = [
    ...readCredentials(sources, problems),
    ...readFile(sources.file, problems),
    ...readEnvironment(sources.environment),
  ]
  return new Map(given.map((setting) => [setting.name, setting]))
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

function readFile(file: SettingsSources['file'], problems: SettingsProblem[]): GivenSetting[] {
  if (!file) return []
  const { entries, problems: unreadable } = parseIni(file.text)
  for (const { section, key, line, message, remedy } of unreadable) {
    const name = key === null ? null : nameOf(section, key)
    // Programs whose sections stand in the same file may have rules of their own.
    if (name === null && section !== null && !isServiceSection(section)) continue
    const shown = name === null ? null : `service.${name}`
    problems.push({ where: `${file.path}:${line}`, key: shown, message, remedy })
  }

  const lines = new Map<string, number>()
  return entries.flatMap(({ section, key, value: text, line }) => {
    const name = nameOf(section, key)
    if (name === null) return []
    const source = `${file.path}:${line}`
    const firstLine = lines.get(name)
    lines.set(name, firstLine ?? line)
    if (!isKnown(name)) {
      problems.push({ where: source, key: `service.${name}`, ...unknownSetting(name) })
      return []
    }
    if (firstLine !== undefined) {
      const message = `is given twice, first on line ${firstLine}`
      problems.push({ where: source, key: `service.${name}`, message, remedy: 'keep one of the two' })
      return []
    }
    return [{ name, text, source }]
  })
}

function readEnvironment(environment: Record<string, string | undefined>): GivenSetting[] {
  return Object.entries(environment).flatMap(([variable, text]) => {
    const name = text === undefined ? null : environmentName(variable)
    return name === null ? [] : [{ name, text: text!.trim(), source: `environment ${variable}` }]
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

// In any case, because a section that is overlooked would leave its settings at their defaults without a word.
function isServiceSection(section: string | null): boolean {
  return section?.toLowerCase() === 'service'
}

function environmentName(variable: string): string | null {
  if (!/^SERVICE_/i.test(variable)) return null
  const name = variable.slice('SERVICE_'.length).toLowerCase()
  if (collectionGate(name)) return name
  // The names of collections contain what shells don't take, so only these are read in any case.
  return isKnown(name) && variable === variable.toUpperCase() ? name : null
}

function isKnown(name: string): boolean {
  return Object.hasOwn(settingsSchema, name) || collectionGate(name) !== null
}

function unknownSetting(name: string): { message: string; remedy: string } {
  const forms = Object.values(collectionSettings).map(({ form }) => form)
  const suggestion = name.startsWith('record_')
    ? forms.join(' or ')
    : nearest(name, Object.keys(settingsSchema))
  const remedy = suggestion
    ? `did you mean service.${suggestion}?`
    : 'remove it, or see "sync-bridge init" for all'
  return { message: 'is no setting', remedy }
}

/** Variables that look like misspelt settings. Others may begin with SERVICE_ as well, so these are no problems. */
export function strangers(environment: Record<string, string | undefined>): string[] {
  return Object.keys(environment).flatMap((variable) => {
    if (!/^SERVICE_/i.test(variable) || environmentName(variable) !== null) return []
    const name = variable.slice('SERVICE_'.length).toLowerCase()
    const suggestion = name.startsWith('record_')
      ? 'record_<collection>_put_enabled'
      : nearest(name, Object.keys(settingsSchema))
    if (!suggestion) return []
    const meant = `SERVICE_${suggestion.toUpperCase()}`
    return [`environment: ${quote(variable)} is no setting and is ignored: did you mean ${meant}?`]
  })
}

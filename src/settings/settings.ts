import { dirname } from 'node:path'
import { quote } from './readers.ts'
import {
  collectionGate,
  firefoxCollections,
  reloadable,
  required,
  settingsSchema,
  type AnySetting,
  type Setting,
  type SettingName,
} from './schema.ts'
import { collectSettings, type SettingsProblem, type SettingsSources } from './sources.ts'
import { nearest } from './nearest.ts'

/** The typed settings; `cache_url` is `cacheUrl` here. A setting without a value is null. */
export type Settings = {
  [Name in SettingName as CamelCase<Name>]: ValueOf<(typeof settingsSchema)[Name]>
} & {
  /** Canonical names of the collections with puts and deletes enabled. */
  writable: { put: Set<string>; delete: Set<string> }
}

/** An effective setting: its text and its source. */
export interface EffectiveSetting {
  name: string
  /** Null: none. */
  text: string | null
  /** `FILE:LINE`, `environment NAME`, `credential NAME`, or `default`. */
  source: string
  secret: boolean
}

type SettingsOutcome = { warnings: string[] } & (
  { settings: Settings; effective: EffectiveSetting[] } | { problems: SettingsProblem[] }
)

/**
 * Reads all settings. The environment overrides the file, the file overrides the credentials directory, and that overrides defaults.
 * Returns all problems: those of the file by line, then of the environment, then missing settings.
 */
export function readSettings(sources: SettingsSources): SettingsOutcome {
  const { given, problems, warnings, isUnread } = collectSettings(sources)
  const { file, readFile } = sources
  const context = { folder: file && dirname(file.path), readFile }
  const writable: Settings['writable'] = { put: new Set(), delete: new Set() }
  // Complete after the loop below.
  const settings = { writable } as Settings
  const effective: EffectiveSetting[] = []
  const missing: SettingsProblem[] = []
  // Each collection has its own settings, which are booleans like `readonly`.
  const gates = [...given.keys()].filter(collectionGate)
  const all = {
    ...settingsSchema,
    ...Object.fromEntries(gates.map((name) => [name, settingsSchema.readonly])),
  }
  for (const [name, setting] of Object.entries<AnySetting>(all)) {
    const { text = setting.initial, source = 'default' } = given.get(name) ?? {}
    if (text === required) {
      if (!isUnread) missing.push(missingSetting(name, setting, file))
      continue
    }
    const reading = text === null ? { value: null } : setting.read(text, context)
    const gate = collectionGate(name)
    if ('problem' in reading) {
      // Some INI readers allow comments at the end of a line, so operators write them.
      const isCommented = /\s[#;]/.test(text!) && !setting.secret
      const hint = isCommented ? ', and comments on separate lines' : ''
      problems.push({ where: source, key: `service.${name}`, problem: reading.problem + hint })
    } else if (!gate) Object.assign(settings, { [camelCase(name)]: reading.value })
    else if (reading.value === true) writable[gate.method].add(gate.collection)
    effective.push({ name, text, source, secret: setting.secret === true })
  }

  if (problems.length > 0 || missing.length > 0) {
    return { problems: [...problems.toSorted((a, b) => lineOf(a) - lineOf(b)), ...missing], warnings }
  }
  return { settings, effective, warnings: [...warnings, ...collectionWarnings(given, settings)] }
}

/**
 * Applies re-read settings to the running ones, as far as that needs no restart; all holders of `running` see them at the next request.
 * Returns the names of changed settings, and of those that need a restart.
 */
export function applyReloadable(running: Settings, read: Settings): { changed: string[]; waiting: string[] } {
  const changed = gateNames(running.writable).symmetricDifference(gateNames(read.writable))
  const waiting: string[] = []
  running.writable = read.writable
  for (const name of Object.keys(settingsSchema)) {
    const key = camelCase(name) as keyof Settings
    if (Bun.deepEquals(running[key], read[key])) continue
    if (!reloadable.has(name)) waiting.push(name)
    else {
      changed.add(name)
      Object.assign(running, { [key]: read[key] })
    }
  }
  return { changed: [...changed], waiting }
}

function gateNames(writable: Settings['writable']): Set<string> {
  const names = (method: 'put' | 'delete') =>
    Array.from(writable[method], (collection) => `record_${collection}_${method}_enabled`)
  return new Set([...names('put'), ...names('delete')])
}

/** A problem as one line: `bridge.ini:12: service.port: "80a" is not an integer: write a number from 0 to 65535`. */
export function renderProblem({ where, key, problem }: SettingsProblem): string {
  return [where, key, problem].filter((part) => part !== null).join(': ')
}

function missingSetting(name: string, setting: AnySetting, file: SettingsSources['file']): SettingsProblem {
  const secret = 'and 64 hexadecimal characters ("sync-bridge init" makes them)'
  const example = setting.secret ? secret : setting.example
  const remedy = `write service.${name} = ${example}, or set SERVICE_${name.toUpperCase()}`
  return { where: file?.path ?? 'environment', key: `service.${name}`, problem: `is required: ${remedy}` }
}

function lineOf({ where }: SettingsProblem): number {
  const line = /:(\d+)$/.exec(where ?? '')?.[1]
  return line === undefined ? Number.MAX_SAFE_INTEGER : Number(line)
}

/** Warns about settings of collections that Firefox does not have; other programs may have them. */
function collectionWarnings(
  given: Map<string, { source: string }>,
  { readableCollections }: Settings,
): string[] {
  const known = new Set(firefoxCollections)
  return [...given].flatMap(([name, { source }]) => {
    const gate = collectionGate(name)
    const named = name === 'readable_collections' ? readableCollections : gate && [gate.collection]
    const unknown = Array.from(named ?? []).filter((collection) => !known.has(collection))
    return unknown.map((collection) => {
      const meant = nearest(collection, firefoxCollections)
      const remedy = meant ? `did you mean ${meant}?` : `Firefox has ${firefoxCollections.join(', ')}`
      return `${source}: service.${name}: Firefox has no collection ${quote(collection)}: ${remedy}`
    })
  })
}

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

type ValueOf<S> = S extends Setting<infer T, infer Default> ? (null extends Default ? T | null : T) : never

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

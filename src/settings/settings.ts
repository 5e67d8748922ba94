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
import { nearest } from './spelling.ts'

/** The settings, typed; the key `cache_url` is `cacheUrl` here. A setting without value is null. */
export type Settings = {
  [Name in SettingName as CamelCase<Name>]: ValueOf<(typeof settingsSchema)[Name]>
} & {
  /** Canonical names of the collections that clients may put records into, and delete from. */
  writable: { put: Set<string>; delete: Set<string> }
}

/** An effective setting: its text and where that came from. */
export interface EffectiveSetting {
  name: string
  /** Null: none. */
  text: string | null
  /** `FILE:LINE`, `environment NAME`, `credential NAME`, or `default`. */
  source: string
  secret: boolean
}

type SettingsOutcome =
  { settings: Settings; effective: EffectiveSetting[]; warnings: string[] } | { problems: SettingsProblem[] }

/**
 * Reads all settings: environment before file before credentials directory before default. The problems, if there
 * are any, are all that there are: the file's in the order of its lines, then the environment's, then what is missing.
 */
export function readSettings(sources: SettingsSources): SettingsOutcome {
  const { given, problems, warnings } = collectSettings(sources)
  const { file, readFile } = sources
  const context = { folder: file && dirname(file.path), readFile }
  const writable: Settings['writable'] = { put: new Set(), delete: new Set() }
  // Complete once the loop below has read every setting of the schema.
  const settings = { writable } as Settings
  const effective: EffectiveSetting[] = []
  const missing: SettingsProblem[] = []
  // Each collection has settings of its own, booleans like this one.
  const gates = [...given.keys()].filter(collectionGate)
  const all = {
    ...settingsSchema,
    ...Object.fromEntries(gates.map((name) => [name, settingsSchema.readonly])),
  }
  for (const [name, setting] of Object.entries<AnySetting>(all)) {
    const { text = setting.initial, source = 'default' } = given.get(name) ?? {}
    if (text === required) {
      missing.push(missingSetting(name, setting, file))
      continue
    }
    const reading = text === null ? { value: null } : setting.read(text, context)
    const gate = collectionGate(name)
    if ('problem' in reading) {
      // Some other INI readers allow comments at the end of a line, so operators write them.
      const isCommented = /\s[#;]/.test(text!) && !setting.secret
      const hint = isCommented ? ', and comments on lines of their own' : ''
      problems.push({ where: source, key: `service.${name}`, problem: reading.problem + hint })
    } else if (!gate) Object.assign(settings, { [camelCase(name)]: reading.value })
    else if (reading.value === true) writable[gate.method].add(gate.collection)
    effective.push({ name, text, source, secret: setting.secret === true })
  }

  if (problems.length > 0 || missing.length > 0) {
    return { problems: [...problems.toSorted((a, b) => lineOf(a) - lineOf(b)), ...missing] }
  }
  const { httpHost, httpScheme, corsOrigins } = settings
  // A browser names the origin of a page also where that came from here, as our own pages do.
  if (httpHost !== null) corsOrigins?.add(new URL(`${httpScheme ?? 'http'}://${httpHost}`).origin)
  return { settings, effective, warnings: [...warnings, ...collectionWarnings(given)] }
}

/**
 * Applies settings that were read again to the running ones, as far as that needs no restart: every holder of `running`
 * sees them from the next request on. Returns the names, as in a file, of the settings that have changed, and of those
 * that wait for a restart.
 */
export function takeOver(running: Settings, read: Settings): { changed: string[]; waiting: string[] } {
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
  return { where: file?.path ?? 'environment', key: `service.${name}`, problem: `is missing: ${remedy}` }
}

function lineOf({ where }: SettingsProblem): number {
  const line = /:(\d+)$/.exec(where ?? '')?.[1]
  return line === undefined ? Number.MAX_SAFE_INTEGER : Number(line)
}

/** Settings of collections that Firefox does not have. Other programs may have them, so this is no problem. */
function collectionWarnings(given: Map<string, { source: string }>): string[] {
  const known = new Set(firefoxCollections)
  return [...given].flatMap(([name, { source }]) => {
    const collection = collectionGate(name)?.collection
    if (collection === undefined || known.has(collection)) return []
    const meant = nearest(collection, firefoxCollections)
    const remedy = meant ? `did you mean ${meant}?` : `Firefox has ${firefoxCollections.join(', ')}`
    return [`${source}: service.${name}: Firefox has no collection ${quote(collection)}: ${remedy}`]
  })
}

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

type ValueOf<S> = S extends Setting<infer T, infer Default> ? (null extends Default ? T | null : T) : never

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

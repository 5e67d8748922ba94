import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A package that the executable contains. */
export interface ShippedPackage {
  name: string
  version: string
  /** As in its package.json: mostly an SPDX expression. */
  license: string
  /** The hash of the registry's archive: `sha512-<base64>`. */
  integrity: string
  /** Where it is installed. */
  folder: string
}

type Names = Record<string, string>

interface LockedPackage {
  dependencies?: Names
  optionalDependencies?: Names
  peerDependencies?: Names
  optionalPeers?: string[]
}

interface Lock {
  workspaces: { '': { dependencies: Names } }
  packages: Record<string, [reference: string, registry: string, needs: LockedPackage, integrity: string]>
}

/**
 * All packages that the dependencies of a project need, according to its bun.lock and the installed packages, ordered by name, without
 * development dependencies. Throws if one is not installed.
 */
export function shippedPackages(project: string): ShippedPackage[] {
  const lock = Bun.JSONC.parse(readFileSync(join(project, 'bun.lock'), 'utf8')) as Lock
  const found = new Set<string>()
  const visit = (place: string) => {
    if (found.has(place)) return
    found.add(place)
    const {
      dependencies,
      optionalDependencies,
      peerDependencies,
      optionalPeers = [],
    } = lock.packages[place]![2]
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      // If it is installed, a development dependency needs it.
      if (optionalPeers.includes(name)) continue
      const needed = resolve(lock, place, name)
      if (needed !== null) visit(needed)
      else if (!optionalDependencies?.[name])
        throw new Error(`Cannot find package "${name}", which "${place}" needs, in bun.lock`)
    }
  }
  for (const name of Object.keys(lock.workspaces[''].dependencies)) visit(name)
  return [...found].toSorted().map((place) => describePackage(lock, project, place))
}

/** The licence texts of a package; empty if it has none. */
export function licenseTexts({ folder }: ShippedPackage): string[] {
  return readdirSync(folder)
    .filter((file) => /^(licen[cs]e|copying|notice)\b/i.test(file))
    .toSorted()
    .map((file) => readFileSync(join(folder, file), 'utf8').trim())
}

// If several packages need different versions of a package, one is in the folder of its dependent, and the others further up.
function resolve(lock: Lock, place: string, name: string): string | null {
  for (let from = place; ; from = from.slice(0, Math.max(0, from.lastIndexOf('/')))) {
    const candidate = from === '' ? name : `${from}/${name}`
    if (lock.packages[candidate]) return candidate
    if (from === '') return null
  }
}

function describePackage(lock: Lock, project: string, place: string): ShippedPackage {
  const [reference, , , integrity] = lock.packages[place]!
  const at = reference.lastIndexOf('@')
  const folder = installedFolder(project, place)
  const { license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { license?: unknown }
  return {
    name: reference.slice(0, at),
    version: reference.slice(at + 1),
    license: typeof license === 'string' ? license : 'NOASSERTION',
    integrity,
    folder,
  }
}

function installedFolder(project: string, place: string): string {
  // "a/@b/c/d": a name with an @ takes two parts.
  const names = place.match(/@[^/]+\/[^/]+|[^/]+/g)!
  const folder = join(project, ...names.flatMap((name) => ['node_modules', name]))
  if (!existsSync(folder)) throw new Error(`Cannot find "${folder}": run "make node_modules" first`)
  return folder
}

import manifest from '../package.json' with { type: 'json' }

/** Defined when the executable is built, and only then. */
declare const SYNC_BRIDGE_COMMIT: string | undefined
declare const SYNC_BRIDGE_SOURCE: string | undefined

export const name = manifest.name

export const version = manifest.version

/** The commit that the executable was built from; `unknown` when running from source. */
export const commit = (typeof SYNC_BRIDGE_COMMIT === 'string' && SYNC_BRIDGE_COMMIT) || 'unknown'

/** Where to get the source of the executable, as given at build time; `unknown` otherwise. */
export const source = (typeof SYNC_BRIDGE_SOURCE === 'string' && SYNC_BRIDGE_SOURCE) || 'unknown'

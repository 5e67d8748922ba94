import { join } from 'node:path'
import type { Host } from '../host.ts'

type Environment = Host['environment']

/** Where the user keeps settings of this program; null if the environment names no home. */
export function configurationFolder({ XDG_CONFIG_HOME, HOME }: Environment): string | null {
  return ownFolder(XDG_CONFIG_HOME || (HOME && join(HOME, '.config')))
}

/** Where this program keeps what is not worth a backup; null if the environment names no home. */
export function stateFolder({ XDG_STATE_HOME, HOME }: Environment): string | null {
  return ownFolder(XDG_STATE_HOME || (HOME && join(HOME, '.local', 'state')))
}

function ownFolder(folder: string | undefined): string | null {
  return folder ? join(folder, 'sync-bridge') : null
}

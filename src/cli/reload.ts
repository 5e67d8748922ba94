import type { Log } from '../observability/log.ts'
import type { Settings } from '../settings/settings.ts'

/** Reads the settings again from where they came; null when they are bad. `report` is told every problem and warning. */
export type ReadAgain = (report: (line: string) => void) => Settings | null

/**
 * Reads the settings again for a service that runs with others: null when they are bad, and then the log tells why. It
 * also tells which of those that are different count from the next start only.
 */
export function reload(readAgain: ReadAgain, log: Log, running: Settings): Settings | null {
  const lines: string[] = []
  const settings = readAgain((line) => void lines.push(line))
  for (const line of lines) {
    if (settings) log.warning('settings', { problem: line })
    else log.error('settings refused', { problem: line })
  }
  if (!settings) {
    log.error('settings kept')
    return null
  }
  const waiting = differentNames(running, settings).filter((name) => !followed.has(name))
  if (waiting.length > 0) log.warning('settings need a restart', { settings: waiting.map(inFile).join(', ') })
  log.info('settings reloaded')
  return settings
}

/** What `Bridge.reload` follows. */
const followed = new Set<keyof Settings>([
  'readonly',
  'writable',
  'retryAfterSeconds',
  'backoff',
  'eos',
  'eosMessage',
  'eosUrl',
  'corsOrigins',
  'corsMaxAgeSeconds',
  'loggingLevel',
  'certificateCaBundle',
])

function differentNames(running: Settings, settings: Settings): (keyof Settings)[] {
  const names = Object.keys(settings) as (keyof Settings)[]
  return names.filter((name) => !Bun.deepEquals(running[name], settings[name]))
}

function inFile(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

import type { Log } from '../ops/log.ts'
import type { Settings } from '../ops/settings.ts'

/** Reads the settings again from where they came; null when they are bad. `report` is told every problem and warning. */
export type ReadAgain = (report: (line: string) => void) => Settings | null

/** Reads the settings again for a service that runs: null when they are bad, and then the log tells why. */
export function reload(readAgain: ReadAgain, log: Log): Settings | null {
  const lines: string[] = []
  const settings = readAgain((line) => void lines.push(line))
  for (const line of lines) {
    if (settings) log.warning('settings', { problem: line })
    else log.error('settings refused', { problem: line })
  }
  if (settings) log.info('settings reloaded')
  else log.error('settings kept')
  return settings
}

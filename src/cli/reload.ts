import { takeOver } from '../settings/settings.ts'

import type { Log } from '../observability/log.ts'
import type { Settings } from '../settings/settings.ts'

/** Reads the settings again from where they came; null when they are bad. `report` is told every problem and warning. */
export type ReadAgain = (report: (line: string) => void) => Settings | null

/**
 * Reads the settings again for a running service and applies to `running` what needs no restart. Null when they are bad,
 * and then the log tells why. The log also tells which settings have changed, and which of them need a restart.
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
  const { changed, waiting } = takeOver(running, settings)
  if (waiting.length > 0) log.warning('settings need a restart', { settings: waiting.join(', ') })
  log.info('settings reloaded', { changed: changed.join(', ') })
  return settings
}

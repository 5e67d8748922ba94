import { LineWriter } from '../observability/line-writer.ts'
import { createLog } from '../observability/log.ts'

import type { Log } from '../observability/log.ts'
import type { Settings } from '../settings/settings.ts'
import type { Host, Output } from './host.ts'

/** The log of a service, and the fate of its lines. */
export interface OutputLog {
  log: Log
  /** Resolves once all lines are out, or after half a second. */
  flush(): Promise<void>
  /** Lines lost so far. */
  dropped(): number
}

// The most that a pipe takes in one piece, so that lines of several processes are never mixed; see pipe(7), PIPE_BUF.
const pieceBytes = 4096

/** The log on an output; a reader that stalls or leaves never delays the service. */
export function createOutputLog(settings: Settings, host: Host, output: Output): OutputLog {
  const writer = new LineWriter(output, {
    pieceBytes,
    onRecovered: (lost) => log.warning('log lines dropped', { lines: lost }),
  })
  const log: Log = createLog({
    renderer: settings.loggingRenderer,
    level: settings.loggingLevel,
    write: (line) => writer.write(line),
    now: host.now,
    // See no-color.org. Whether it is a terminal takes the runtime some ms to tell, so only a text for people asks.
    colour: settings.loggingRenderer === 'text' && output.isTty && !host.environment.NO_COLOR,
    priorities: output.isJournal,
  })
  return { log, flush: () => Promise.race([writer.flush(), Bun.sleep(500)]), dropped: () => writer.dropped }
}

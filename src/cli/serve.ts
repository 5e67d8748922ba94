import { createLineWriter } from '../ops/line-writer.ts'
import { createLog } from '../ops/log.ts'
import type { Log } from '../ops/log.ts'
import type { Settings } from '../ops/settings.ts'
import { createParts, startBridge } from './bridge.ts'
import type { Bridge } from './bridge.ts'
import type { Host, Output } from './host.ts'
import type { Probes } from './programs.ts'

/**
 * Runs the bridge until a signal ends it. SIGTERM or SIGINT: answers what is under way, and then 0; a second one: at
 * once. 1 when it can't listen.
 */
export async function serve(settings: Settings, host: Host): Promise<number> {
  const { log, flush } = createOutputLog(settings, host, host.stdout)
  let bridge: Bridge
  try {
    bridge = startBridge(settings, host, log)
  } catch (error) {
    const reason =
      (error as { code?: string }).code === 'EADDRINUSE'
        ? 'the port is in use'
        : 'the address can not be used'
    host.stderr.write(
      `sync-bridge: cannot listen on ${settings.host}:${settings.port}: ${reason}; change service.host or service.port\n`,
    )
    return 1
  }
  log.info('listening', { url: bridge.url })
  await untilSignal(host)
  log.info('stopping', { graceSeconds: settings.shutdownGraceSeconds })
  await Promise.race([bridge.stop(settings.shutdownGraceSeconds * 1000), untilSignal(host)])
  log.info('stopped')
  await flush()
  return 0
}

/** What `check` asks the service's surroundings. */
export async function createProbes(settings: Settings): Promise<Probes> {
  const silent: Log = { debug() {}, info() {}, warning() {}, error() {} }
  const { tokenServer, store } = createParts(settings, { now: Date.now }, silent)
  const timeoutMs = settings.tokenServerHeartbeatTimeoutSeconds * 1000
  return {
    tokenServer: async () =>
      (await tokenServer.heartbeat(timeoutMs)) || `no answer from ${settings.tokenServerUrl}`,
    cache: async () =>
      store === null || (await answersSoon(() => store.ping())) || 'no answer: see service.cache_url',
    close: () => store?.close(),
  }
}

// A store connects in the background, so the first question may come too early.
async function answersSoon(ping: () => Promise<boolean>): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt++) {
    if (await ping()) return true
    await Bun.sleep(50)
  }
  return false
}

/** The log on an output, which a reader that stalls or goes away never holds up. */
export function createOutputLog(settings: Settings, host: Host, output: Output) {
  const writer = createLineWriter(output, {
    onRecovered: (lost) => log.warning('log lines were lost', { lines: lost }),
  })
  const log: Log = createLog({
    renderer: settings.loggingRenderer,
    level: settings.loggingLevel,
    write: (line) => writer.write(line),
    now: host.now,
    colour: output.isTty,
  })
  return { log, flush: () => Promise.race([writer.flush(), Bun.sleep(500)]) }
}

/** Resolves at the next SIGTERM or SIGINT. */
export function untilSignal(host: Host): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const removers = [host.onSignal('SIGTERM', resolve), host.onSignal('SIGINT', resolve)]
  return promise.finally(() => removers.forEach((remove) => remove()))
}

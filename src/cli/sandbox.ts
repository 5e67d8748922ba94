import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { firefoxCollections } from '../settings/schema.ts'
import { readSettings } from '../settings/settings.ts'
import type { Settings } from '../settings/settings.ts'
import { announce, environmentLines, startShortLinks } from '../sandbox/announce.ts'
import type { Announcement } from '../sandbox/announce.ts'
import { fillSampleData, seedSampleData } from '../sandbox/sample-data.ts'
import { startSandbox } from '../sandbox/sandbox.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxUser } from '../sandbox/sandbox-user.ts'
import { startBridge } from '../service/bridge.ts'
import type { Bridge } from '../service/bridge.ts'
import type { Host } from './host.ts'
import { describeAddressError } from './listening.ts'
import { createOutputLog } from './output.ts'
import { stopSignals } from './signals.ts'

/** What the sandbox starts. The operating system chooses a port that is null. */
export interface SandboxOptions {
  /** Only the storage and the token server, without the bridge. */
  upstreamOnly: boolean
  port: number | null
  tokenPort: number | null
  storagePort: number | null
  /** No sample records, only the keys to write some with. */
  isEmpty: boolean
  /** Shows the requests to the bridge. */
  log: boolean
  /** The number of sample records for each collection, by its canonical name. */
  seed: Map<string, number>
}

const monthSeconds = 30 * 24 * 3600
const usualPort = 8000
const writableCollections = [...firefoxCollections.filter((name) => !/^(crypto|meta)$/.test(name)), 'scratch']

/**
 * Starts a storage with sample data, its token server, and the bridge over them unless told otherwise; prints how to use
 * them and runs until a signal. 1 when a port is taken.
 */
export async function sandbox(options: SandboxOptions, host: Host): Promise<number> {
  let upstream: Sandbox
  try {
    upstream = await startSandbox({
      ...(options.tokenPort !== null && { tokenPort: options.tokenPort }),
      ...(options.storagePort !== null && { storagePort: options.storagePort }),
    })
  } catch (error) {
    // The error does not tell which of the two ports it is about.
    const port = Math.min(options.tokenPort ?? Infinity, options.storagePort ?? Infinity)
    return complain(host, await describeFailure(error, port, '--token-port or --storage-port'))
  }
  const user = upstream.addUser('sample')
  fillSampleData(upstream, user, options)
  for (const [collection, count] of options.seed) {
    host.stderr.write(`Making ${count} records in ${collection} ...\n`)
    seedSampleData(upstream, user, collection, count)
  }
  let bridge: Bridge | null
  try {
    bridge = options.upstreamOnly ? null : startBridgeOver(upstream, options, host)
  } catch (error) {
    await upstream.stop()
    return complain(host, await describeFailure(error, options.port ?? 0, '--port'))
  }

  const info = describe(upstream, user, bridge)
  // Exported, so that programs started from the shell that reads the file see the variables too.
  const file = bridge ? writePrivately(environmentLines(info).replaceAll(/^(?=.)/gm, 'export ')) : null
  const secret = Buffer.from(host.randomBytes(9)).toString('base64url')
  const links = info.bridge ? startShortLinks(info, info.bridge, secret) : null
  host.stdout.write(announce(info, file?.path ?? null, links))
  const { stop } = stopSignals(host, 0)
  // Closing the terminal ends the sandbox too.
  const hungUp = new Promise<void>((resolve) => host.onSignal('SIGHUP', resolve))
  await Promise.race([stop, hungUp])
  file?.remove()
  await Promise.all([links?.stop(), bridge?.stop(1000)])
  await upstream.stop()
  return 0
}

/** Writes a file that only this user can read, in a folder of its own; null where that is impossible. */
function writePrivately(text: string): { path: string; remove(): void } | null {
  try {
    const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-'))
    const path = join(folder, 'sandbox.env')
    writeFileSync(path, text, { mode: 0o600 })
    return { path, remove: () => rmSync(folder, { recursive: true, force: true }) }
  } catch {
    return null
  }
}

function complain(host: Host, problem: string): number {
  host.stderr.write(`sync-bridge: ${problem}\n`)
  return 1
}

function startBridgeOver(upstream: Sandbox, { port, log }: SandboxOptions, host: Host): Bridge {
  const startAt = (candidate: number) => {
    const settings = sandboxSettings(upstream, candidate, log, host)
    return startBridge(settings, host, createOutputLog(settings, host, host.stderr).log)
  }
  if (port !== null) return startAt(port)
  try {
    return startAt(usualPort)
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EADDRINUSE') throw error
    // The usual port is only a convenience, so any free one will do.
    const bridge = startAt(0)
    const { port: other } = new URL(bridge.url)
    host.stderr.write(`Port ${usualPort} is taken, so the bridge has port ${other}; --port chooses one.\n`)
    return bridge
  }
}

/** Throws an error that is not about listening. */
async function describeFailure(error: unknown, port: number, setting: string): Promise<string> {
  const problem = await describeAddressError(error, { hostname: '127.0.0.1', port, setting })
  if (!problem) throw error
  return `cannot listen: ${problem}`
}

/** The settings of a bridge that needs nothing else on this machine and allows writes. */
function sandboxSettings(upstream: Sandbox, port: number, log: boolean, host: Host): Settings {
  const environment: Record<string, string> = {
    SERVICE_PORT: String(port),
    SERVICE_TOKEN_SERVER_URL: upstream.tokenServerUrl,
    SERVICE_CACHE_BACKEND: 'memory',
    SERVICE_CACHE_HMAC_SECRET: Buffer.from(host.randomBytes(32)).toString('hex'),
    SERVICE_EXPLORER_ENABLED: 'true',
    SERVICE_LOGGING_RENDERER: 'text',
    SERVICE_LOGGING_LEVEL: log ? 'info' : 'warning',
  }
  for (const collection of writableCollections) {
    environment[`SERVICE_RECORD_${collection.toUpperCase()}_PUT_ENABLED`] = 'true'
    environment[`SERVICE_RECORD_${collection.toUpperCase()}_DELETE_ENABLED`] = 'true'
  }
  const outcome = readSettings({ file: null, environment, readFile: host.readFile })
  if ('problems' in outcome)
    throw new Error(`The sandbox has made bad settings: ${outcome.problems[0]!.problem}`)
  return outcome.settings
}

function describe(upstream: Sandbox, user: SandboxUser, bridge: Bridge | null): Announcement {
  const recordId = upstream.records(user, 'bookmarks').find(({ id }) => /^\w+$/.test(id))?.id ?? null
  return {
    tokenServerUrl: upstream.tokenServerUrl,
    storageUrl: upstream.storageUrl,
    bucket: user.clientState,
    keyId: user.keyId,
    bearerToken: user.bearerToken({ expiresInSeconds: monthSeconds }),
    assertion: user.assertion({
      expiresInSeconds: monthSeconds,
      certificateExpiresInSeconds: 2 * monthSeconds,
    }),
    syncKey: user.syncKey,
    ...(bridge && {
      bridge: {
        url: bridge.url,
        docsUrl: `${bridge.url}/v1/docs`,
        explorerUrl: `${bridge.url}/v1/explore`,
        recordId,
      },
    }),
  }
}

import { dirname } from 'node:path'
import { canonicalCollection } from '../../domain/record.ts'
import {
  announce,
  describeSandbox,
  environmentLines,
  type Announcement,
  type PageLinks,
} from '../../sandbox/announce.ts'
import { fillSampleData, seedSampleData } from '../../sandbox/sample-data.ts'
import { startSandbox, type Sandbox } from '../../sandbox/sandbox.ts'
import { firefoxCollections } from '../../settings/schema.ts'
import { listenAt } from './listening.ts'
import { onEnter, startLinks, type Links } from '../links.ts'
import { startLoopbackBridge } from '../loopback-bridge.ts'
import { writePrivateFile, type PrivateFile } from '../private-file.ts'
import { describeCommand, Option, refuse, several, wholeNumber, type CommandFactory } from '../command.ts'
import { interruption } from '../signals.ts'
import type { Bridge } from '../../service/bridge.ts'
import type { Host } from '../host.ts'

/** How to run it. The operating system chooses ports that are absent. */
export interface SandboxOptions {
  /** Only the storage and the token server. */
  upstreamOnly?: true
  /** No sample records, only the keys to write some. */
  empty?: true
  /** Whether the bridge logs requests. */
  log?: true
  port?: number
  tokenPort?: number
  storagePort?: number
  /** Additional sample records. */
  seed?: [collection: string, count: number][]
}

const maxSeedCount = 1_000_000
const readPort = wholeNumber(0, 65_535)

export const sandboxCommand =
  (start: typeof sandbox): CommandFactory =>
  (perform) =>
    describeCommand(
      'sandbox',
      'run the service with an embedded Sync storage, to try it out',
      'Everything listens on loopback and is kept in memory only.',
    )
      .option('--upstream-only', 'only the storage and the token server, without the service')
      .option('--empty', 'no sample data, to try a restore')
      .option('--log', 'show the requests to the service')
      .addOption(new Option('-p, --port <N>', 'port of the service').argParser(readPort))
      .addOption(new Option('--token-port <N>', 'port of the token server').argParser(readPort))
      .addOption(new Option('--storage-port <N>', 'port of the storage').argParser(readPort))
      .addOption(
        new Option(
          '--seed <COLLECTION=COUNT>',
          'add that many sample records; may be given several times',
        ).argParser(several(readSeed)),
      )
      .action(perform((host, options) => start(options, host)))

function readSeed(text: string): [collection: string, count: number] {
  const match = /^(.+)=(\d{1,7})$/.exec(text)
  const collection = match ? canonicalCollection(match[1]!) : null
  const count = Number(match?.[2])
  if (collection === null || count > maxSeedCount)
    return refuse(`Write COLLECTION=COUNT, with a count up to ${maxSeedCount}.`)
  return [collection, count]
}

const defaultPort = 8000
// Wrong keys or metadata would make everything else unreadable.
const writable = new Set([...firefoxCollections, 'scratch']).difference(new Set(['crypto', 'meta']))

/**
 * Starts a storage with sample data, its token server and a bridge over them; prints how to use them and runs until a signal. 1 if a port
 * is in use.
 */
export async function sandbox(options: SandboxOptions, host: Host): Promise<number> {
  const { tokenPort, storagePort } = options
  // The error does not say which of the two ports it is about.
  const upstreamPort = Math.min(tokenPort ?? Infinity, storagePort ?? Infinity)
  const upstreamAddress = loopback(upstreamPort, '--token-port or --storage-port')
  const upstream = await listenAt(upstreamAddress, host, () => startSandbox({ tokenPort, storagePort }))
  if (upstream === null) return 1
  const user = upstream.addUser('sample')
  fillSampleData(upstream, user, { isEmpty: options.empty === true })
  for (const [collection, count] of options.seed ?? []) {
    host.stderr.write(`Making ${count} records in ${collection} ...\n`)
    seedSampleData(upstream, user, collection, count)
  }
  const address = loopback(options.port ?? 0, '--port')
  const bridge = options.upstreamOnly
    ? null
    : await listenAt(address, host, () => startBridgeOver(upstream, options, host))
  if (bridge === null && !options.upstreamOnly) {
    await upstream.stop()
    return 1
  }

  const info = describeSandbox(upstream, user, bridge?.url ?? null)
  const stopped = interruption(host)
  const file = bridge ? writeVariables(environmentLines(info), host) : null
  const links = info.bridge ? startLinks({ bridgeUrl: info.bridge.url, port: 0, writable }, host) : null
  const issued = links && issueLinks(links, info, host)
  host.stdout.write(announce(info, file?.path ?? null, issued))
  await stopped
  file?.remove()
  await Promise.all([links?.stop(), bridge?.stop(1000)])
  await upstream.stop()
  return 0
}

/** Makes links to the pages, and prints new ones whenever the user presses Enter. */
function issueLinks(links: Links, info: Announcement, host: Host): PageLinks {
  const { bearerToken: token, keyId, bucket, syncKey } = info
  const used = async <Values>(values: Values) => {
    host.stdout.write(`The link was used.${canAsk ? ' Press Enter for new ones.' : ''}\n`)
    return values
  }
  const issue = () => ({
    explorer: links.issue('explore', () => used({ token, keyId, bucket, syncKey: syncKey.toString('hex') })),
    docs: links.issue('docs', () => used({ BEARER_TOKEN: token, KEY_ID: keyId, BUCKET: bucket })),
  })
  const canAsk = onEnter(host, () => {
    const { explorer, docs } = issue()
    host.stdout.write(`Your data: ${explorer}\nAPI page:  ${docs}\n`)
  })
  const hint = `Each link works once, within a minute.${canAsk ? ' Press Enter for new ones.' : ''}`
  return { ...issue(), hint }
}

function loopback(port: number, setting: string) {
  return { hostname: '127.0.0.1', port, setting, purpose: 'listen' }
}

/**
 * Writes a private file of variables; null if that fails. A shell that sources it finds this executable, and uses the file as the account of
 * every command, so that no token goes to the bridge of another account.
 */
function writeVariables(
  lines: string,
  { standalone, executablePath }: Pick<Host, 'standalone' | 'executablePath'>,
): PrivateFile | null {
  const programs = `'${dirname(executablePath).replaceAll("'", `'\\''`)}'`
  const found = standalone ? `PATH=${programs}:"$PATH"\n` : ''
  return writePrivateFile('sandbox.env', (path) =>
    // Exported, so that child processes of the shell see the variables too.
    `${lines}SYNC_BRIDGE_ACCOUNT='${path}'\n${found}`.replaceAll(/^(?=.)/gm, 'export '),
  )
}

function startBridgeOver(upstream: Sandbox, { port, log }: SandboxOptions, host: Host): Bridge {
  const startAt = (candidate: number) => {
    const environment = {
      SERVICE_EXPLORER_ENABLED: 'true',
      SERVICE_LOGGING_LEVEL: log ? 'info' : 'warning',
    }
    const { tokenServerUrl } = upstream
    // A change of bookmarks is one batch.
    const batchMaxRequests = 1000
    return startLoopbackBridge(
      { tokenServerUrl, port: candidate, writable, batchMaxRequests, environment },
      host,
    )
  }
  if (port !== undefined) return startAt(port)
  try {
    return startAt(defaultPort)
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EADDRINUSE') throw error
    // The default port is only a convenience, so any free one will do.
    const bridge = startAt(0)
    const { port: other } = new URL(bridge.url)
    host.stderr.write(
      `Port ${defaultPort} is in use, so the bridge uses port ${other}. Use --port to choose one.\n`,
    )
    return bridge
  }
}

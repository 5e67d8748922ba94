import { resolve } from 'node:path'
import { ClientError } from '../../client/errors.ts'
import { printable, printableLine } from '../../client/safe-text.ts'
import { SyncClient } from '../../client/sync-client.ts'
import { errno } from '../../domain/errors.ts'
import { firefoxCollections } from '../../settings/schema.ts'
import { reasonOf } from '../../settings/readers.ts'
import { nearest } from '../../settings/spelling.ts'
import { startLoopbackBridge } from '../loopback-bridge.ts'
import { accountPath, keepToken, readAccountFile } from './account-file.ts'
import { chooseBridge, requireSafeServers, type AccountOptions } from './bridge-choice.ts'
import type { Account } from '../../client/account.ts'
import type { Bridge } from '../../service/bridge.ts'
import type { Host } from '../host.ts'

export { printable, printableLine }

/** Mozilla's token server, the default. */
export const mozillaTokenServer = 'https://token.services.mozilla.com'

/** Exit code of a command that succeeded only in part. */
export const partialSuccess = 3

/** The context of a command. */
export interface Session {
  client: SyncClient
  host: Host
  /** The URL of the bridge, without a path. */
  bridgeUrl: string
  /** The collections that its own bridge lets the command write; it adds them. */
  writable: Set<string>
  /** Sends requests that trust the certificates of `--ca`. */
  fetch: Fetch
  /** Prints a line to stderr. */
  tell(text: string): void
}

/** How a command uses the bridge. */
export interface SessionNeeds {
  hasExplorer?: boolean
}

/**
 * Runs a command for an account, over a bridge in this process, or the one that the account or `--bridge` names. Returns
 * its exit code; 1 if it throws `ClientError`, whose message is printed.
 */
export async function withAccount(
  given: AccountOptions,
  host: Host,
  needs: SessionNeeds,
  work: (session: Session) => Promise<number>,
): Promise<number> {
  try {
    const path = accountPath(given.account, host)
    const account = readAccountFile(path, host)
    const bridge = chooseBridge(account, given, path, host)
    const keep = (renewed: Account) => keepToken(path, renewed, host)
    return await withBridge(account, bridge, given, host, needs, work, keep)
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    host.stderr.write(`sync-bridge: ${printable(error.message)}${adviceFor(error)}\n`)
    return 1
  }
}

/** The same for values that are not saved yet, and the bridge at this URL; null: one in this process. Rejects with `ClientError`. */
export async function withBridge(
  account: Partial<Account>,
  chosen: string | null,
  { ca }: Pick<AccountOptions, 'ca'>,
  host: Host,
  { hasExplorer = false }: SessionNeeds,
  work: (session: Session) => Promise<number>,
  onNewToken: (account: Account) => void = () => {},
): Promise<number> {
  const tell = (text: string) => void host.stderr.write(`${printable(text)}\n`)
  requireSafeServers(account)
  const fetch = trustingFetch(ca, host)
  const writable = new Set<string>()
  const bridge: Bridge | null =
    chosen === null
      ? startLoopbackBridge(
          {
            tokenServerUrl: originOfTokenServer(account.tokenServerUrl || mozillaTokenServer),
            port: 0,
            writable,
            batchMaxRequests: 10_000,
            environment: {
              SERVICE_EXPLORER_ENABLED: String(hasExplorer),
              SERVICE_LOGGING_LEVEL: 'error',
              // Short, because this bridge serves only one client.
              SERVICE_RETRY_AFTER_SECONDS: '2',
              ...(ca && { SERVICE_CERTIFICATE_CA_BUNDLE: resolve(host.cwd, ca) }),
            },
          },
          host,
        )
      : null
  try {
    const bridgeUrl = bridge?.url ?? chosen!
    const client: SyncClient = new SyncClient(
      { ...account, bridgeUrl },
      {
        fetch,
        onPause(seconds, status) {
          const reason = status === 200 ? 'asks for a pause: continuing' : `returned ${status}: retrying`
          tell(`The bridge ${reason} in ${seconds} s`)
        },
        onNewToken: () => onNewToken(client.account),
      },
    )
    if (bridge === null) tell(`Bridge: ${bridgeUrl}`)
    return await work({ client, host, bridgeUrl, writable, fetch, tell })
  } finally {
    await bridge?.stop(1000)
  }
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** `fetch` with the certificates of this file as the only trusted ones, if there is one. Throws `ClientError`. */
export function trustingFetch(path: string | undefined, host: Host): Fetch {
  if (path === undefined) return (url, init) => fetch(url, init)
  try {
    const ca = host.readFile(path)
    return (url, init) => fetch(url, { ...init, tls: { ca } })
  } catch (error) {
    throw new ClientError(`Cannot read --ca ${path} (${reasonOf(error)})`)
  }
}

/** Reads one of all collections. If it still failed after retries, the next ones are tried once until one succeeds: an outage affects all. */
export async function readNext<Result>({ requests }: SyncClient, reading: Promise<Result>): Promise<Result> {
  const isDown = await reading.then(
    () => false,
    (error: { status?: unknown }) => error.status === 503,
  )
  requests.options.maxPauses = isDown ? 0 : undefined
  return reading
}

/** Firefox stores the URL with the protocol path. */
function originOfTokenServer(url: string): string {
  return url.replace(/\/1\.0\/sync\/1\.5\/?$/, '')
}

function adviceFor({ field, errno: number }: ClientError): string {
  if (number === errno.unknownPath)
    return ': the bridge does not expose this collection, or its address has a wrong path'
  return field === null || field === 'bridgeUrl' ? '' : '\nGet new values with "sync-bridge connect".'
}

const maxShown = 10

/** The first ten ids or places, for a message. */
export function someOf(ids: string[]): string {
  const more = ids.length > maxShown ? ' …' : ''
  return ids.slice(0, maxShown).map(printableLine).join(' ') + more
}

/** Writes data to stdout; false if its reader has closed. Rejects with `ClientError` on other errors. */
export async function writeOut(host: Host, text: string): Promise<boolean> {
  const error: (Error & { code?: unknown }) | null = await host.stdout.write(text)
  if (error === null) return true
  if (error.code === 'EPIPE') return false
  throw new ClientError(`Cannot write to standard output: ${String(error.code ?? error.message)}`)
}

/** Reports a collection that neither the account nor Firefox has, which is probably misspelt; null if one of them has it. */
export async function describeAbsent(client: SyncClient, name: string): Promise<string | null> {
  if (firefoxCollections.includes(name)) return null
  const names = (await client.collections()).map((collection) => collection.name)
  if (names.includes(name)) return null
  const meant = nearest(name, [...names, ...firefoxCollections])
  return `The account has no collection ${JSON.stringify(name)}${meant ? `: did you mean ${meant}?` : ''}`
}

/** Throws `ClientError` for the collection whose content is the keys themselves. */
export function refuseKeys(name: string): void {
  if (name === 'crypto')
    throw new ClientError('"crypto" contains the keys of the account, which are not shown')
}

/** "1 record", "2 records". */
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

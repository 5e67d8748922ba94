import { resolve } from 'node:path'
import { ClientError } from '../../client/errors.ts'
import { printable } from '../../client/safe-text.ts'
import { SyncClient } from '../../client/sync-client.ts'
import { reasonOf } from '../../settings/readers.ts'
import { startLoopbackBridge } from '../loopback-bridge.ts'
import { accountPath, keepToken, readAccountFile } from './account-file.ts'
import { chooseBridge, requireSafeServers, type AccountOptions } from './bridge-choice.ts'
import { useProxy } from './proxy.ts'
import { RequestObserver } from './request-observer.ts'
import { removeAbandonedDrafts } from './drafts.ts'
import type { Account } from '../../client/account.ts'
import type { Host } from '../host.ts'

/** Mozilla's token server, the default. */
const mozillaTokenServer = 'https://token.services.mozilla.com'

/** The context of a command. */
export interface Session {
  client: SyncClient
  host: Host
  /** The URL of the bridge; `bridgeRoot` removes its path. */
  bridgeUrl: string
  /** Sends requests to other servers; trusts the certificates of `--ca`. */
  fetch: Fetch
  /** Prints a line to stderr. */
  tell(text: string): void
}

/** How a command uses the bridge. */
export interface SessionNeeds {
  /** The collections that it writes. */
  writes?: Iterable<string>
}

/**
 * Runs a command for an account, over a bridge in this process, or the one that the account or `--bridge` names. Returns its exit code;
 * rejects with `ClientError`.
 */
export async function withAccount(
  given: AccountOptions,
  host: Host,
  needs: SessionNeeds,
  work: (session: Session) => Promise<number>,
): Promise<number> {
  const path = accountPath(given.account, host)
  removeAbandonedDrafts(path, host)
  const account = readAccountFile(path, host)
  const connection: Connection = {
    account,
    bridge: chooseBridge(account, given, path, host),
    given,
    tokenServerPlace: `TOKEN_SERVER_URL in ${path}`,
    onNewToken: (renewed) => keepToken(path, renewed, host),
  }
  return withBridge(connection, host, needs, work)
}

/** The values of an account, and how to reach its storage. */
export interface Connection {
  account: Partial<Account>
  /** The URL of the bridge; null: one in this process. */
  bridge: string | null
  given: Pick<AccountOptions, 'ca' | 'verbose'>
  /** Where the address of the token server can be changed, for messages. */
  tokenServerPlace: string
  onNewToken?(account: Account): void
}

/** The same for values that may not be saved yet. */
export async function withBridge(
  { account, bridge: chosen, given: { ca, verbose = false }, tokenServerPlace, onNewToken }: Connection,
  host: Host,
  { writes = [] }: SessionNeeds,
  work: (session: Session) => Promise<number>,
): Promise<number> {
  const tell = (text: string) => void host.stderr.write(`${printable(text)}\n`)
  requireSafeServers(account)
  const proxyNote = useProxy(host)
  const fetch = trustingFetch(ca, host)
  const tokenServerUrl = originOfTokenServer(account.tokenServerUrl || mozillaTokenServer)
  const observer = new RequestObserver({
    send: fetch,
    show: verbose ? tell : null,
    tell,
    places: { tokenServer: tokenServerPlace, authority: 'trust that with --ca FILE' },
    tokenServerUrl,
    now: host.monotonicNow,
  })
  const startOwn = () =>
    startLoopbackBridge(
      {
        tokenServerUrl,
        port: 0,
        writable: new Set(writes),
        batchMaxRequests: 10_000,
        insider: observer,
        environment: {
          SERVICE_DOCS_ENABLED: 'false',
          SERVICE_LOGGING_LEVEL: 'error',
          // Short, because this bridge serves only one client.
          SERVICE_RETRY_AFTER_SECONDS: '2',
          ...(ca && { SERVICE_CERTIFICATE_CA_BUNDLE: resolve(host.cwd, ca) }),
        },
      },
      host,
    )
  const bridge = chosen === null ? startOwn() : null
  try {
    const bridgeUrl = bridge?.url ?? chosen!
    const client: SyncClient = new SyncClient(
      { ...account, bridgeUrl },
      {
        fetch: observer.fetch,
        onPause(seconds, status) {
          const reason = observer.reason ?? `The bridge returned ${status}`
          tell(
            status === 200
              ? `The bridge asks for a pause: continuing in ${seconds} s`
              : `${reason}: retrying in ${seconds} s`,
          )
        },
        onNewToken: () => onNewToken?.(client.account),
      },
    )
    if (bridge === null) tell(`Bridge: ${bridgeUrl}`)
    return await work({ client, host, bridgeUrl, fetch, tell })
  } catch (error) {
    throw proxyNote === '' ? error : withProxyNote(error, proxyNote)
  } finally {
    await bridge?.stop(1000)
  }
}

/** An error that says how a proxy was used, if a request got no answer or one of a server that is not asked. */
function withProxyNote(error: unknown, note: string): unknown {
  if (!(error instanceof ClientError)) return error
  const { message, field, status, errno, cause } = error
  const isUnanswered = status === 503 || (status === null && cause !== undefined)
  if (!isUnanswered) return error
  return new ClientError(`${message.replace(/\.$/, '')}. ${note}`, { field, status, errno, cause })
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

/** Firefox stores the URL with the protocol path. */
function originOfTokenServer(url: string): string {
  return url.replace(/\/1\.0\/sync\/1\.5\/?$/, '')
}

import { bridgeRoot } from '../../client/writable.ts'
import { isClearText } from '../../client/token.ts'
import { ClientError } from '../../client/errors.ts'
import type { Account } from '../../client/account.ts'
import type { Host } from '../host.ts'

/** The options of every command that uses an account. */
export interface AccountOptions {
  /** The account's file. */
  account?: string
  /** The URL of a running bridge. */
  bridge?: string
  /** Whether that bridge may be on another machine without TLS. */
  plainHttp?: boolean
  /** A file with the only certificates to trust. */
  ca?: string
  /** Whether to show the requests. */
  verbose?: boolean
}

/**
 * The URL of the bridge to use: that of `--bridge`, else the account's; null for one inside this process. Throws `ClientError` if the
 * environment names another one, which is left over from another account, and if requests to it could be read on the way.
 */
export function chooseBridge(
  { bridgeUrl }: Partial<Account>,
  { bridge, plainHttp = false }: AccountOptions,
  path: string,
  { environment }: Pick<Host, 'environment'>,
): string | null {
  const leftOver = environment.BRIDGE_URL
  if (bridge === undefined && leftOver && !isSame(leftOver, bridgeUrl)) {
    const other = leftOver.replace(/^.*@/, '********@')
    const own = bridgeUrl ? `uses ${bridgeUrl}` : 'starts a bridge of its own'
    throw new ClientError(
      `BRIDGE_URL in the environment is ${other}, but the account ${path} ${own}. Unset BRIDGE_URL, or use --bridge ${other}`,
    )
  }
  const chosen = bridge ?? (bridgeUrl || null)
  // `checkAccount` rejects what is no address.
  if (chosen !== null && !plainHttp && /^http:/i.test(chosen) && URL.canParse(chosen) && isClearText(chosen))
    throw new ClientError(
      `Anyone between here and ${new URL(chosen).host} could read your access token: use an https:// address for the bridge, or --plain-http if you trust the network`,
    )
  return chosen
}

function isSame(one: string, other = ''): boolean {
  const [left, right] = [one, other].map(bridgeRoot)
  return left === right
}

/** Throws `ClientError` if tokens would be sent to a token server or an account server in plain text. */
export function requireSafeServers({ tokenServerUrl = '', tokenEndpoint = '' }: Partial<Account>): void {
  for (const [name, url] of Object.entries({
    TOKEN_SERVER_URL: tokenServerUrl,
    TOKEN_ENDPOINT: tokenEndpoint,
  })) {
    if (url === '') continue
    if (!URL.canParse(url) || isClearText(url))
      throw new ClientError(`${name} must begin with https://, unless the server is on this machine`)
  }
}

import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Quirks } from './quirks.ts'
import { Refusal } from './reply.ts'
import type { RequestTarget } from './request-target.ts'
import type { SandboxClock } from './timestamps.ts'
import type { TokenContents, Tokens } from './tokens.ts'

/** What signatures are checked with. */
export interface HawkParts {
  tokens: Tokens
  clock: SandboxClock
  quirks: Quirks
  /** Users whose data moved to another node. */
  movedUids: ReadonlySet<number>
}

const weekSeconds = 7 * 24 * 3600
const longestSkewSeconds = 52 * weekSeconds
const pythonGraceSeconds = 2 * 3600

/**
 * The token that signed the request; throws 401 when the signature doesn't hold. Nonces aren't remembered and bodies
 * aren't hashed, as on the real server; see Sync 1.5 API, "API Access and Discovery".
 */
export function checkHawk(request: Request, target: RequestTarget, parts: HawkParts): TokenContents {
  const attributes = readAttributes(request.headers.get('Authorization') ?? '', parts.quirks.isPython)
  const { id = '', ts = '', mac = '' } = attributes ?? {}
  const contents = parts.tokens.open(id)
  if (attributes === null || contents === null || parts.movedUids.has(contents.uid)) throw refused(parts)
  const nowSeconds = Math.floor(parts.clock.nowMs() / 1000)
  if (Math.round(contents.expires) + graceSeconds(target, contents, parts) <= nowSeconds) throw refused(parts)
  const origin = readOrigin(request.headers)
  const key = parts.tokens.keyOf(id, contents.salt)
  const lines = { ...attributes, method: request.method, ...origin }
  const isSigned = spellings(target).some((raw) => isSame(computeMac(key, { ...lines, target: raw }), mac))
  if (!isSigned) throw refused(parts)
  if (Math.abs(nowSeconds - Number(ts)) > longestSkewSeconds) throw refused(parts)
  if (parts.quirks.isPython && !isNode(contents.node, origin)) throw refused(parts)
  return contents
}

/** The lines that Hawk signs, as values. */
export interface SignedLines {
  ts?: string
  nonce?: string
  method: string
  /** Path and query as on the wire. */
  target: string
  host: string
  port: string
  hash?: string
  ext?: string
}

/** The MAC of a request in base64. The key is used as ASCII text. */
export function computeMac(key: string, lines: SignedLines): string {
  const { ts = '', nonce = '', method, target, host, port, hash = '', ext = '' } = lines
  const text = ['hawk.1.header', ts, nonce, method.toUpperCase(), target, host, port, hash, ext, ''].join(
    '\n',
  )
  return createHmac('sha256', key).update(text).digest('base64')
}

interface Attributes {
  id: string
  ts: string
  nonce: string
  mac: string
  hash?: string
  ext?: string
}

// The Rust server wants the scheme's capital letter; app and dlg are read but don't take part in the MAC.
function readAttributes(header: string, anyCase: boolean): Attributes | null {
  const scheme = anyCase ? /^hawk /i : /^Hawk /
  if (!scheme.test(header)) return null
  const found: Record<string, string> = {}
  for (const part of header.slice(5).split(/, */)) {
    const [, name, value] = /^(id|ts|nonce|mac|hash|ext|app|dlg)="([^"\\]*)"$/.exec(part.trim()) ?? []
    if (name === undefined || value === undefined || name in found) return null
    found[name] = value
  }
  const { id, ts, nonce, mac } = found
  if (id === undefined || !/^\d{1,15}$/.test(ts ?? '') || nonce === undefined || mac === undefined)
    return null
  return { ...found, id, ts: ts ?? '', nonce, mac }
}

// Proxies in front may say how the client saw the server; the Host header comes last.
function readOrigin(headers: Headers): { scheme: string; host: string; port: string } {
  const forwarded = headers.get('Forwarded')?.split(',')[0] ?? ''
  const authority =
    /(?:^|;)\s*host="?([^";]+)/i.exec(forwarded)?.[1] ??
    headers.get('X-Forwarded-Host')?.split(',')[0]?.trim() ??
    headers.get('Host') ??
    ''
  const scheme =
    /(?:^|;)\s*proto="?([a-z]+)/i.exec(forwarded)?.[1] ??
    headers.get('X-Forwarded-Proto')?.split(',')[0]?.trim() ??
    'http'
  const [host = '', port] = authority.toLowerCase().split(':')
  return { scheme, host, port: port ?? (scheme === 'https' ? '443' : '80') }
}

// Clients ask info/collections first and learn from it; it is answered although the token has run out.
function graceSeconds(target: RequestTarget, { uid }: TokenContents, { quirks }: HawkParts): number {
  if (target.path !== `/1.5/${uid}/info/collections`) return 0
  return quirks.isPython ? pythonGraceSeconds : Number.POSITIVE_INFINITY
}

function isNode(
  node: string,
  { scheme, host, port }: { scheme: string; host: string; port: string },
): boolean {
  const url = URL.parse(node)
  if (url === null || url.protocol !== `${scheme}:`) return false
  return url.hostname === host && (url.port || (scheme === 'https' ? '443' : '80')) === port
}

// The runtime escapes these characters in the paths of requests that have them as they are. The signature tells.
function spellings({ raw, path }: RequestTarget): string[] {
  if (!/%(7B|7D|5E|60|3C|3E|22)/.test(path)) return [raw]
  const unescaped = path.replaceAll(/%(?:7B|7D|5E|60|3C|3E|22)/g, decodeURIComponent)
  return [raw, unescaped + raw.slice(path.length)]
}

function isSame(left: string, right: string): boolean {
  const [a, b] = [Buffer.from(left), Buffer.from(right)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function refused({ quirks }: HawkParts): Refusal {
  return new Refusal(401, 0, quirks.isPython ? { 'WWW-Authenticate': 'Hawk' } : {})
}

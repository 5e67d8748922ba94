import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import type { RequestTarget } from './http.ts'
import { Refusal } from './reply.ts'
import type { SandboxClock } from './timestamps.ts'

/** What the signature check depends on. */
export interface HawkParts {
  tokens: Tokens
  clock: SandboxClock
  /** Uids of accounts that moved to another node. */
  movedUids: ReadonlySet<number>
}

const weekSeconds = 7 * 24 * 3600
const longestSkewSeconds = 52 * weekSeconds

/**
 * The token that signed the request; throws 401 if the signature is invalid. Like the real server, neither remembers
 * nonces nor hashes bodies; see Sync 1.5 API, "API Access and Discovery".
 */
export function checkHawk(request: Request, target: RequestTarget, parts: HawkParts): TokenContents {
  const attributes = readAttributes(request.headers.get('Authorization') ?? '')
  const { id = '', ts = '', mac = '' } = attributes ?? {}
  const contents = parts.tokens.open(id)
  if (attributes === null || contents === null || parts.movedUids.has(contents.uid)) throw new Refusal(401)
  // Accepts an expired token for info/collections, like the real server: clients request it first.
  const isGraced = target.path === `/1.5/${contents.uid}/info/collections`
  const nowSeconds = Math.floor(parts.clock.nowMs() / 1000)
  if (Math.round(contents.expires) <= nowSeconds && !isGraced) throw new Refusal(401)
  const origin = readOrigin(request.headers)
  const key = parts.tokens.keyOf(id, contents.salt)
  const lines = { ...attributes, method: request.method, ...origin }
  const isSigned = spellings(target).some((raw) => isSame(computeMac(key, { ...lines, target: raw }), mac))
  if (!isSigned) throw new Refusal(401)
  if (Math.abs(nowSeconds - Number(ts)) > longestSkewSeconds) throw new Refusal(401)
  return contents
}

/** The values that Hawk signs. */
interface SignedLines {
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

/** The MAC of a request in base64. Uses the key as ASCII text, not decoded. */
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

// The server requires the capital letter of the scheme; app and dlg are parsed but not part of the MAC.
function readAttributes(header: string): Attributes | null {
  if (!header.startsWith('Hawk ')) return null
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

// Headers of a proxy say which address the client used; the Host header is the fallback.
function readOrigin(headers: Headers): { host: string; port: string } {
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
  return { host, port: port ?? (scheme === 'https' ? '443' : '80') }
}

// The runtime escapes these characters if the request did not; the signature shows which form was sent.
function spellings({ raw, path }: RequestTarget): string[] {
  if (!/%(7B|7D|5E|60|3C|3E|22)/.test(path)) return [raw]
  const unescaped = path.replaceAll(/%(?:7B|7D|5E|60|3C|3E|22)/g, decodeURIComponent)
  return [raw, unescaped + raw.slice(path.length)]
}

function isSame(left: string, right: string): boolean {
  const [a, b] = [Buffer.from(left), Buffer.from(right)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The contents of a token id, under their original names. The storage uses only uid, node, expires and salt. */
interface TokenContents {
  uid: number
  node: string
  /** Seconds since the epoch. */
  expires: number
  /** Six hex characters; an input of the Hawk key. */
  salt: string
  fxa_uid: string
  fxa_kid: string
  hashed_fxa_uid: string
  hashed_device_id: string
  tokenserver_origin: string
}

/** Creates and verifies Hawk ids with the secret that the token server and storage share. */
export interface Tokens {
  /** The signed contents as padded base64url: the Hawk id. */
  seal(contents: TokenContents): string
  /** The contents; null if the id isn't padded base64url or wasn't signed with this secret. */
  open(id: string): TokenContents | null
  /** The Hawk key of an id: 44 characters, used as text and not decoded. */
  keyOf(id: string, salt: string): string
}

const signatureBytes = 32

/** Tokens in the tokenlib format: JSON followed by its HMAC, keys derived by HKDF-SHA256 without a salt. */
export function createTokens(secret: string): Tokens {
  const signingKey = derive(secret, '', 'services.mozilla.com/tokenlib/v1/signing')
  const sign = (json: Buffer) => createHmac('sha256', signingKey).update(json).digest()
  return {
    seal(contents) {
      const json = Buffer.from(JSON.stringify(contents))
      return paddedBase64url(Buffer.concat([json, sign(json)]))
    },
    open(id) {
      if (!/^[A-Za-z0-9_-]+={0,2}$/.test(id) || id.length % 4 !== 0) return null
      const bytes = Buffer.from(id, 'base64url')
      if (bytes.length <= signatureBytes) return null
      const json = bytes.subarray(0, -signatureBytes)
      if (!timingSafeEqual(sign(json), bytes.subarray(-signatureBytes))) return null
      return readContents(json.toString())
    },
    keyOf: (id, salt) =>
      paddedBase64url(derive(secret, salt, `services.mozilla.com/tokenlib/v1/derive/${id}`)),
  }
}

function readContents(json: string): TokenContents | null {
  const contents: unknown = JSON.parse(json)
  if (typeof contents !== 'object' || contents === null) return null
  const { uid, expires, salt } = contents as Record<string, unknown>
  const isWhole = typeof uid === 'number' && typeof expires === 'number' && typeof salt === 'string'
  return isWhole ? (contents as TokenContents) : null
}

function derive(secret: string, salt: string, info: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, 32))
}

function paddedBase64url(bytes: Buffer): string {
  const text = bytes.toString('base64url')
  return text.padEnd(Math.ceil(text.length / 4) * 4, '=')
}

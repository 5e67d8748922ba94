import { createRequire } from 'node:module'
import { startSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** The exports of the published Hawk implementation that are used here. */
interface HawkClient {
  header(
    url: string | object,
    method: string,
    options: { credentials: { id: string; key: string; algorithm: 'sha256' }; timestamp: number },
  ): { header: string }
}

/** Signs without any of our code. */
const hawk = (createRequire(import.meta.url)('hawk') as { client: HawkClient }).client

export interface Token {
  id: string
  key: string
  uid: number
  api_endpoint: string
  duration: number
  hashalg: string
  hashed_fxa_uid: string
  node_type: string | null
}

export interface Answer {
  status: number
  text: string
  /** The value of X-Last-Modified. */
  modified: string | null
  headers: Headers
  json(): unknown
}

/** The time at which every test starts, in milliseconds. */
export const beginning = 1_700_000_000_000

/** A started sandbox, a stopped clock, and a client with a token. Over HTTP, because a request is signed with its host and port. */
export class SyncClient {
  nowMs = beginning
  sandbox!: Sandbox
  user!: SandboxUser
  token!: Token

  /** Advances the clock; 10 ms are enough for the next write. */
  later(ms = 10): void {
    this.nowMs += ms
  }

  /** The timestamp that a write would get now, as on the wire. */
  stamp(offsetMs = 0): string {
    return ((this.nowMs + offsetMs) / 1000).toFixed(2)
  }

  async askToken(headers: Record<string, string>, path = '/1.0/sync/1.5', method = 'GET'): Promise<Answer> {
    return toAnswer(await fetch(this.sandbox.tokenServerUrl + path, { method, headers, redirect: 'manual' }))
  }

  /** Fetches a new token for a user with an assertion. */
  async signIn(user: SandboxUser, query = ''): Promise<Token> {
    const headers = { Authorization: `BrowserID ${user.assertion()}`, 'X-Client-State': user.clientState }
    const answer = await this.askToken(headers, `/1.0/sync/1.5${query}`)
    if (answer.status !== 200) throw new Error(`Cannot sign in: ${answer.status} ${answer.text}`)
    return answer.json() as Token
  }

  /** Sends a signed request; the path is relative to the user's endpoint. */
  async send(
    method: string,
    path: string,
    options: { body?: string; headers?: Record<string, string>; token?: Token } = {},
  ): Promise<Answer> {
    const { token = this.token, headers, body } = options
    const [url, init] = signed({ token, nowMs: this.nowMs }, method, path)
    // As bytes, because fetch would add a Content-Type to text.
    const bytes = body === undefined ? null : Buffer.from(body)
    return toAnswer(await fetch(url, { ...init, headers: { ...init.headers, ...headers }, body: bytes }))
  }

  get(path: string, headers?: Record<string, string>): Promise<Answer> {
    return this.send('GET', path, { headers: { ...headers } })
  }

  put(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.#sendJson('PUT', path, body, headers)
  }

  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.#sendJson('POST', path, body, headers)
  }

  delete(path: string, headers?: Record<string, string>): Promise<Answer> {
    return this.send('DELETE', path, { headers: { ...headers } })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sandbox.stop()
  }

  #sendJson(method: string, path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> {
    const json = { 'Content-Type': 'application/json', ...headers }
    return this.send(method, path, { body: JSON.stringify(body), headers: json })
  }
}

/** Overrides for the signature. */
export interface SigningOptions {
  method?: string
  /** What to sign if it differs from what is sent; an address given in parts is signed unchanged. */
  signedUrl?: string | object
}

/** The URL to fetch for a path below the user's endpoint. */
export function signed(
  { token, nowMs }: Pick<SyncClient, 'token' | 'nowMs'>,
  method: string,
  path: string,
  { signedUrl }: SigningOptions = {},
): [url: string, init: { method: string; headers: { Authorization: string } }] {
  const { id, key, api_endpoint: endpoint } = token
  const credentials = { id, key, algorithm: 'sha256' } as const
  const timestamp = Math.floor(nowMs / 1000)
  const url = signedUrl ?? endpoint + path
  const { header } = hawk.header(url, method, { credentials, timestamp })
  return [endpoint + path, { method, headers: { Authorization: header } }]
}

/** Starts a sandbox and signs a user in. */
export async function connect(options: SandboxOptions = {}): Promise<SyncClient> {
  const client = new SyncClient()
  client.sandbox = await startSandbox({ clock: () => client.nowMs, ...options })
  client.user = client.sandbox.addUser('ann')
  client.token = await client.signIn(client.user)
  return client
}

async function toAnswer(response: Response): Promise<Answer> {
  const text = await response.text()
  return {
    status: response.status,
    text,
    modified: response.headers.get('X-Last-Modified'),
    headers: response.headers,
    json: () => JSON.parse(text),
  }
}

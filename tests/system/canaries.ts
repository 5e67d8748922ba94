import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { startFaultProxy, type FaultProxy, type ProxiedRequest } from '../support/fault-proxy.ts'
import { makeFolder, serve, type Bridge } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** Every kind of secret that passes through a bridge. */
export const kinds = [
  'assertion',
  'access token',
  'key id',
  'client state as bucket',
  'client state in a header',
  'Hawk id',
  'Hawk key',
  'payload',
  'record id',
  'password of another scheme',
  'cache secret',
  'previous cache secret',
  'Redis password',
] as const

export type Kind = (typeof kinds)[number]

/** What their owner may see: in lists, in records, in URLs. */
const ownersOwn: readonly Kind[] = ['payload', 'record id', 'client state as bucket']

/** Secrets that can be recognized wherever they turn up. */
export class Canaries {
  readonly #values = new Map<Kind, Set<string>>()

  /** Records the secrets and returns the first. */
  keep(kind: Kind, ...values: string[]): string {
    const known = this.#values.get(kind) ?? new Set()
    this.#values.set(kind, known)
    // A log cuts long values, so only the beginning of a secret is searched for.
    for (const value of values) known.add(value.slice(0, 24))
    return values[0]!
  }

  get kinds(): Kind[] {
    return [...this.#values.keys()]
  }

  get count(): number {
    return [...this.#values.values()].reduce((total, { size }) => total + size, 0)
  }

  /** The kinds of secrets that occur in a text. */
  foundIn(text: string): Kind[] {
    return this.kinds.filter((kind) => [...this.#values.get(kind)!].some((value) => text.includes(value)))
  }

  /** The same for a response to their owner. */
  foundInOwn(text: string): Kind[] {
    return this.foundIn(text).filter((kind) => !ownersOwn.includes(kind))
  }
}

/** A user with stored data, whose secrets are all canaries. */
export interface Owner {
  user: SandboxUser
  recordId: string
  payload: string
  bearer: Record<string, string>
  browserId: Record<string, string>
  /** The old form, where the bucket is called `default` and a header has the client state. */
  legacy: Record<string, string>
}

/** A bridge with its own upstream, whose output is searched for the secrets that it receives. */
export interface CanaryWorld {
  bridge: Bridge
  sandbox: Sandbox
  tokens: FaultProxy
  storage: FaultProxy
  cwd: string
  newOwner(): Owner
  /** Responses to the owners themselves, with headers. */
  ownAnswers: string[]
  /** Responses to another user, whose requests came in between. */
  foreignAnswers: string[]
  statuses: Set<number | null>
  everyRequest(owner: Owner): Promise<void>
  send(path: string, init: RequestInit, into: string[]): Promise<void>
  stop(): Promise<void>
}

export async function startCanaryWorld(
  canaries: Canaries,
  settings: Record<string, string>,
): Promise<CanaryWorld> {
  const sandbox = await startSandbox()
  const tokens = await startFaultProxy({ target: sandbox.tokenServerUrl })
  const storage = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = storage.url
  const cwd = makeFolder()
  const bridge = await serve({ token_server_url: tokens.url, ...settings }, { cwd })
  const ownAnswers: string[] = []
  const foreignAnswers: string[] = []
  const statuses = new Set<number | null>()

  async function send(path: string, init: RequestInit, into: string[]): Promise<void> {
    const answer = await fetch(bridge.url + path, { redirect: 'manual', ...init }).catch(() => null)
    const text = await answer?.text().catch(() => null)
    statuses.add(answer?.status ?? null)
    into.push(JSON.stringify([answer?.headers.toJSON(), text]))
  }

  async function everyRequest(owner: Owner): Promise<void> {
    // Not the one of earlier requests, whose storage may be paused by now.
    const stranger = sandbox.addUser(crypto.randomUUID())
    const strangerHeaders = { Authorization: `Bearer ${stranger.bearerToken()}`, 'X-KeyID': stranger.keyId }
    for (const [index, [path, init]] of requestsOf(owner).entries()) {
      await send(path, init, ownAnswers)
      if (index % 4 > 0) continue
      const records = `/v1/buckets/${stranger.clientState}/collections/tabs/records`
      await send(records, { headers: strangerHeaders }, foreignAnswers)
    }
  }

  return {
    bridge,
    sandbox,
    tokens,
    storage,
    cwd,
    ownAnswers,
    foreignAnswers,
    statuses,
    newOwner: () => newOwner(sandbox, canaries),
    everyRequest,
    send,
    async stop() {
      await Promise.all([tokens.stop(), storage.stop()])
      await sandbox.stop()
    },
  }
}

function newOwner(sandbox: Sandbox, canaries: Canaries): Owner {
  const user = sandbox.addUser(crypto.randomUUID())
  const old = sandbox.addUser(crypto.randomUUID())
  const recordId = canaries.keep('record id', `canaryRecord-${crypto.randomUUID()}`)
  const payload = canaries.keep('payload', `canary-payload-${crypto.randomUUID()}`)
  sandbox.write(user, 'tabs', [{ id: recordId, payload }])
  sandbox.write(old, 'tabs', [{ id: recordId, payload }])
  const token = user.bearerToken()
  const assertions = [user.assertion(), old.assertion()]
  const partsOf = (text: string) => text.split(/[.~]/).filter((part) => part.length > 24)
  canaries.keep('access token', token, ...partsOf(token))
  canaries.keep('assertion', ...assertions, ...assertions.flatMap(partsOf))
  canaries.keep('key id', user.keyId)
  canaries.keep('client state as bucket', user.clientState)
  canaries.keep('client state in a header', old.clientState)
  return {
    user,
    recordId,
    payload,
    bearer: { Authorization: `Bearer ${token}`, 'X-KeyID': user.keyId },
    browserId: { Authorization: `BrowserID ${assertions[0]}` },
    legacy: { Authorization: `BrowserID ${assertions[1]}`, 'X-Client-State': old.clientState },
  }
}

function requestsOf({ user, recordId, payload, bearer, browserId, legacy }: Owner): [string, RequestInit][] {
  const bucket = `/buckets/${user.clientState}`
  const tabs = `/v1${bucket}/collections/tabs`
  const json = { ...bearer, 'Content-Type': 'application/json' }
  const body = JSON.stringify({ data: { payload } })
  const path = (collection: string) => `${bucket}/collections/${collection}/records/${recordId}`
  const requests = [
    { method: 'PUT', path: path('tabs'), body: { data: { payload } } },
    { method: 'PUT', path: path('forms'), body: { data: { payload } } },
    { path: path('tabs') },
    { path: `${path('tabs')}-which-is-not-there` },
    { method: 'DELETE', path: path('tabs'), headers: { 'If-Match': '"1000"' } },
    { path: `${bucket}/collections/${payload}/records?_since=${payload}` },
  ]
  return [
    ['/v1/', { headers: bearer }],
    [`${tabs}/records`, { headers: bearer }],
    [`${tabs}/records?in_ids=${recordId}&_since=${payload}`, { headers: bearer }],
    [`${tabs}/records?exclude_id=${recordId}&_limit=1`, { headers: browserId }],
    [`${tabs}/records/${recordId}`, { headers: bearer }],
    ['/v1/buckets/default/collections/tabs/records', { headers: legacy }],
    [`${tabs}/records/${recordId}`, { method: 'PUT', headers: json, body }],
    [`${tabs}/records/${recordId}`, { method: 'PUT', headers: { ...json, 'If-Match': '"1000"' }, body }],
    [`${tabs}/records/${recordId}`, { method: 'DELETE', headers: { ...bearer, 'If-Match': '"1000"' } }],
    ['/v1/batch', { method: 'POST', headers: json, body: JSON.stringify({ requests }) }],
  ]
}

/** Every route with every method, with and without a version, and with a record id in unexpected places. */
export function sweepOf({ user, recordId, payload, bearer }: Owner): [string, RequestInit][] {
  const bucket = `/v1/buckets/${user.clientState}`
  const tabs = `${bucket}/collections/tabs`
  const own = [
    '',
    '__version__',
    '__api__',
    '__heartbeat__',
    '__lbheartbeat__',
    '__metrics__',
    'docs',
    'batch',
  ]
  const paths = [
    ...own.flatMap((path) => [`/v1/${path}`, `/${path}`]),
    `/v1/docs/${recordId}`,
    bucket,
    `${bucket}/collections`,
    tabs,
    `${tabs}/records`,
    `${tabs}/records/${recordId}`,
    `/v2/${payload}`,
    `/v1/${payload}/${user.clientState}`,
  ]
  const methods = ['GET', 'HEAD', 'OPTIONS', 'PUT', 'POST', 'PATCH', 'DELETE']
  return paths.flatMap((path) =>
    methods.map((method): [string, RequestInit] => {
      const sends = method !== 'GET' && method !== 'HEAD'
      const headers = { ...bearer, ...(sends && { 'Content-Type': 'application/json' }) }
      return [`${path}?x=${recordId}`, { method, headers, ...(sends && { body: `{"data":"${payload}"}` }) }]
    }),
  )
}

/** Requests with secrets in wrong places. */
export function malformedOf(
  { user, recordId, payload, bearer }: Owner,
  password: string,
): [string, RequestInit][] {
  const tabs = `/v1/buckets/${user.clientState}/collections/tabs/records`
  const json = { ...bearer, 'Content-Type': 'application/json' }
  const put = (body: string): [string, RequestInit] => [`${tabs}/x`, { method: 'PUT', headers: json, body }]
  const batch = (body: string): [string, RequestInit] => [
    '/v1/batch',
    { method: 'POST', headers: json, body },
  ]
  return [
    [`${tabs}?_token=${payload}`, { headers: bearer }],
    [`${tabs}?_sort=${payload}&in_ids=${payload}%00`, { headers: bearer }],
    [`${tabs}/${recordId}%00`, { headers: bearer }],
    [tabs.replace('tabs', 'history') + `/${recordId}`, { method: 'PUT', headers: json, body: payload }],
    [`${tabs}/x`, { headers: { ...bearer, 'If-Match': payload } }],
    [`${tabs}/x`, { headers: { ...bearer, 'If-None-Match': payload, 'If-Modified-Since': payload } }],
    [`${tabs}/x`, { headers: { Authorization: `Basic ${password}` } }],
    [`${tabs}/x`, { headers: { ...bearer, 'Proxy-Authorization': `Basic ${password}`, Cookie: password } }],
    [`${tabs}/x`, { headers: { Authorization: `Bearer ${password}`, 'X-KeyID': password } }],
    [`${tabs}/x`, { headers: { ...bearer, Origin: `https://${payload}.example` } }],
    [`${tabs}/x`, { headers: { ...bearer, 'X-Request-Id': `${payload} ` + password } }],
    put(`{"data":{"payload":"${payload}"`),
    put(`{"data":{"${payload}":1}}`),
    put(`{"data":{"payload":["${payload}"]}}`),
    put(`{"data":{"payload":"x","sortindex":"${payload}"}}`),
    batch(`{"requests":[{"path":"${payload}"}]}`),
    batch(`{"requests":"${payload}"}`),
    batch(`{"requests":[{"path":"/","method":"${payload}","body":"${payload}"}]}`),
    batch(`{"requests":[{"path":"/","headers":{"Authorization":"${password}\\n"}}]}`),
    batch(`{"requests":[{"path":"/${payload}","headers":{"Authorization":"Bearer ${password}"}}]}`),
  ]
}

/** Everything that upstream has received with a request. */
export function echoOf({ target, headers, body }: ProxiedRequest): string {
  return JSON.stringify([target, headers.toJSON(), body])
}

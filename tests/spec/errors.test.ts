import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'bun:test'
import { request, startTestBridge, type TestBridge } from '../support/bridge.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../support/fault-proxy.ts'
import { expectCommonHeaders, expectError, putOf, type Place } from './expectations.ts'
import { batchOf, openWorld } from './world.ts'

let bridge: TestBridge
let storage: FaultProxy
const token = await startFaultProxy({ target: 'http://127.0.0.1:1' })
const { bridge: other } = await openWorld({ tokenServerUrl: token.url })
let made = 0
const records = '/collections/history/records'
const echo = 'upstream-words-canary'

async function open(): Promise<void> {
  bridge = await startTestBridge({
    writable: ['history'],
    settings: { max_request_bytes: '10000', retry_after_seconds: '17' },
  })
  storage = await startFaultProxy({ target: bridge.sandbox.storageUrl })
  bridge.sandbox.switches.nodeUrl = storage.url
}

async function close(): Promise<void> {
  await bridge.stop()
  await storage.stop()
}

beforeAll(open)
beforeEach(() => storage.plan(() => null))
afterAll(close)
afterAll(() => token.stop())

const failWith = (fault: Fault) => storage.plan(({ path }) => (path.includes('/storage/') ? fault : null))
const answering = (status: number, headers: Record<string, string> = {}, body = `"${echo}"`): Fault => ({
  kind: 'status',
  status,
  headers: { 'Content-Type': 'application/json', ...headers },
  body,
})
const get = () => bridge.ask(records)
const write = () => bridge.ask(`${records}/new-${made++}`, putOf({ payload: 'x' }))

describe('section 6: the errno table, for the requests themselves', () => {
  it.each([
    ['Content-Type', 'text/plain'],
    ['Content-Type', 'application/json; charset=utf-16'],
    ['Content-Type', 'application/json; odata=verbose; Charset=utf-16'],
    ['Content-Type', 'application/jsonl'],
    ['Content-Type', 'application/json, text/plain'],
    ['Content-Type', 'application/merge-patch+json'],
    ['Content-Encoding', 'gzip'],
  ] as const)('415 errno 107: %s %s', async (header, value) => {
    const answer = await bridge.ask(`${records}/x`, putOf({}, { [header]: value }))

    expectError(answer, 415, 107, `${header} in header`)
  })

  it('lists all problems of path, query and headers together, alone and in a batch', async () => {
    const path = `/collections/bad!name/records?_since=zzz&_limit=0&in_ids=%00`
    const headers = { 'If-Match': 'W/1', 'If-None-Match': '"x' }
    const requests = [{ path: `/buckets/${bridge.user.clientState}${path}`, headers }]
    const batch = await batchOf(bridge)({ requests })
    const places: Place[] = [
      'If-Match in header', 'If-None-Match in header', 'collection_id in path', '_limit in querystring',
      '_since in querystring', 'in_ids in querystring',
    ] // prettier-ignore

    for (const answer of [await bridge.ask(path, { headers }), batch.body.responses[0]])
      expectError(answer, 400, 107, ...places)
  })

  it('also lists problems of combinations: two preconditions, a different alias, an invalid page token', async () => {
    const path = '/collections/history/records?_since=10&gt_last_modified=20&_token=abc&_sort=up'
    const headers = { 'If-Match': '"1"', 'If-None-Match': '"1"' }

    const inQuery: Place[] = ['_since in querystring', '_sort in querystring', '_token in querystring']

    expectError(await bridge.ask(path, { headers }), 400, 107, 'If-None-Match in header', ...inQuery)
  })

  it('checks the credentials before it lists problems, unless the path is invalid', async () => {
    const ask = (path: string) => bridge.ask(path, { as: null })

    expectError(await ask('/collections/history/records?_limit=0'), 401, 104)
    expectError(await ask('/collections/bad!name/records'), 400, 109, 'collection_id in path')
    expectError(await ask('/v1/buckets/%01/collections'), 400, 109, 'bucket_id in path')
  })
})

describe('section 6: the errno table, for the storage', () => {
  it.each([
    [403, {}, '0', 403, 121],
    [400, {}, '14', 403, 121],
    [413, {}, '', 413, 113],
    [400, {}, '17', 413, 113],
    [409, {}, '', 409, 122],
    [429, { 'Retry-After': '40' }, '', 429, 117],
    [513, {}, '', 410, 202],
    [502, {}, '<html>', 503, 201],
    [504, {}, '', 503, 201],
    [301, { Location: 'http://evil.example/' }, '', 503, 201],
    [418, {}, '', 503, 201],
    [204, {}, '', 503, 201],
    [200, { 'Content-Encoding': 'gzip' }, 'x', 503, 201],
    [200, {}, '<html>', 503, 201],
  ] as [number, Record<string, string>, string, number, number][])(
    '%i %j "%s" is %i errno %i for a read and a write',
    async (upstream, headers, body, status, errno) => {
      failWith(answering(upstream, headers, body))

      expectError(await get(), status, errno)
      expectError(await write(), status, errno)
    },
  )

  it('400 errno 109 of a rejected token names it', async () => {
    bridge.sandbox.seed(bridge.user, 'forms', 3)
    const { headers } = await bridge.ask('/collections/forms/records?_limit=1')
    failWith(answering(400, {}, '0'))

    const answer = await request(headers.get('next-page')!, { headers: bridge.identityOf(bridge.user) })

    expectError(answer, 400, 109, '_token in querystring')
  })

  it('503 with a message for a reader, or for a writer, after a lost connection', async () => {
    failWith({ kind: 'reset-before' })

    const [read, written] = [await get(), await write()]
    const lost = 'Lost the connection to the token server or the storage'
    expect(read.body).toMatchObject({ message: `${lost}: try again later` })
    expect(written.body).toMatchObject({ message: `${lost}: read before retrying a write` })
  })

  it('503 errno 201 for an empty response without a type or a record count', async () => {
    failWith({ kind: 'status', status: 200 })

    expectError(await get(), 503, 201)
    expectError(await bridge.ask(`${records}?_limit=1`), 503, 201)
  })

  it('never repeats upstream texts', async () => {
    for (const status of [400, 403, 409, 413, 429, 500, 503, 513]) {
      failWith({
        kind: 'status',
        status,
        headers: { 'Content-Type': 'text/html', 'X-Debug': echo, Server: echo },
        body: `<b>${echo}</b>`,
      })
      const answer = await get()

      expect(answer.text).not.toContain('canary')
      expect(JSON.stringify(answer.headers.toJSON())).not.toContain('canary')
    }
  })
})

describe('section 6: the errno table, for the token server', () => {
  const ask = () => other.ask(records, { headers: { Authorization: `Bearer token-${made++}` } })
  const refusal = (status: string, location = 'body') =>
    JSON.stringify({ status, errors: [{ location, name: echo, description: echo }] })

  it.each([
    [401, refusal('constructor'), 401, 105],
    [401, refusal(echo), 401, 105],
    [429, '', 429, 117],
    [404, '0', 503, 201],
    [404, refusal('error', 'url'), 503, 201],
    [400, refusal('error', 'url'), 503, 201],
    [405, '', 503, 201],
    [403, '<h1>', 503, 201],
    [500, '', 503, 201],
    [200, '{}', 503, 201],
    [200, '<html>', 503, 201],
    [302, '', 503, 201],
  ] as const)('%i %s is %i errno %i', async (upstream, body, status, errno) => {
    token.plan(() => answering(upstream, {}, body))

    const answer = await ask()

    expectError(answer, status, errno)
    expect(answer.text).not.toContain('canary')
  })

  // The eight reasons that a client can do something about; every other one has the first text.
  it.each([
    [401, 'something-new', 'The token server rejected these credentials: sign in again'],
    [401, 'invalid-credentials', 'The token server cannot verify this assertion or access token'],
    [401, 'invalid-timestamp', 'The assertion has expired, or the clocks of client and token server differ'],
    [401, 'invalid-generation', 'The password has changed since this assertion was issued: sign in again'],
    [401, 'invalid-keysChangedAt', 'The encryption key has changed: get the new key and X-KeyID'],
    [401, 'invalid-client-state', 'The client state is outdated: get the new encryption key'],
    [401, 'invalid-key-id', 'The token server requires an X-KeyID header'],
    [403, 'new-users-disabled', 'The token server does not accept new users'],
    [401, 'unsupported', 'The token server does not support this authentication scheme'],
  ])('says why it refused an identity: %i %s', async (upstream, reason, message) => {
    token.plan(() => answering(upstream, {}, refusal(reason)))

    const answer = await ask()

    expectError(answer, 401, 105)
    expect(answer.body.message).toBe(message)
  })

  it('is 503 when its connection breaks', async () => {
    token.plan(() => ({ kind: 'reset-before' }))

    expectError(await ask(), 503, 201)
  })
})

describe('section 6: the form of an error', () => {
  it('links to more information only for our own defects', async () => {
    await using linked = await startTestBridge({ settings: { error_info_link: 'https://example.org/help' } })

    const { body } = await request(`${linked.url}/v1/unknown`)

    expect(body).not.toHaveProperty('info')
  })

  it.each(['text/html', 'application/xml;q=1, */*;q=0'])('is JSON for Accept: %s', async (accept) => {
    const error = await request(`${bridge.url}/v1/unknown`, { headers: { Accept: accept } })
    const success = await bridge.ask(records, { headers: { Accept: accept } })

    for (const { headers } of [error, success]) {
      expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    }
  })
})

describe('section 6 and 7: Retry-After', () => {
  it.each([
    [503, null, '17'],
    [503, '40', '40'],
    [503, '40.5', '41'],
    [503, 'nonsense', '17'],
    [503, '1e3', '17'],
    [503, 'Wed, 31 Dec 2025 00:00:00 GMT', '17'],
    [503, '999999999', '86400'],
    [429, null, '17'],
    [429, '99', '99'],
  ])('of a %i that requests %p is %s', async (status, given, expected) => {
    failWith(answering(status, given === null ? {} : { 'Retry-After': given }))

    const answer = await get()

    expect(answer.headers.get('retry-after')).toBe(expected)
    expectCommonHeaders(answer.headers)
  })

  it('understands dates', async () => {
    failWith(answering(503, { 'Retry-After': new Date(Date.now() + 1_000_000).toUTCString() }))

    const { headers } = await get()

    expect(Number(headers.get('retry-after'))).toBeWithin(900, 1002)
  })

  it.each([403, 409, 413, 513])('is not sent below 500, because clients retry on it: %i', async (status) => {
    failWith(answering(status, { 'Retry-After': '40' }))

    const { headers } = await get()

    expect(headers.get('retry-after')).toBeNull()
  })

  it('is not sent with a success, whatever the storage sends', async () => {
    failWith({ kind: 'rewrite', headers: { 'Retry-After': '40' } })

    const { status, headers } = await get()

    expect([status, headers.get('retry-after')]).toEqual([200, null])
  })
})

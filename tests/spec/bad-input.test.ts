import { beforeEach, describe, expect, it } from 'bun:test'
import { startTestBridge } from '../support/bridge.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from './expectations.ts'
import { rawRequest, sendRaw, type RawAnswer } from './raw-http.ts'
import { headerLines, openWorld, parsed } from './world.ts'

const world = await openWorld({ writable: ['history'], settings: { max_request_bytes: '100000' } })
const { bridge, send } = world
const bucket = `/v1${world.bucket}`
bridge.sandbox.write(bridge.user, 'history', [{ id: 'r', payload: 'x' }])

beforeEach(() => bridge.sandbox.requests.storage.clear())

/** Sends text unchanged, to test malformed requests. */
const sendText = (text: string) => sendRaw(bridge.url, Buffer.from(text.replace(/\r?\n/g, '\r\n'), 'latin1'))

/** The data after the first response. */
function afterFirst({ headers, body }: RawAnswer): string {
  return body.slice(Number(headers.get('content-length')))
}

const isUntouched = () => {
  expect(bridge.sandbox.requests.storage.entries.filter(({ method }) => method !== 'GET')).toEqual([])
  expect(bridge.sandbox.records(bridge.user, 'history').map(({ id }) => id)).toEqual(['r'])
}

describe('bad input: request line and Host', () => {
  const badHosts = [
    'a b', '<script>', 'u@h:99999', 'h:99999', '', 'evil.example/path', 'a, b', 'a?b', 'a:b:c', '\u00e9',
  ] // prettier-ignore

  it.each(badHosts)('rejects the Host "%s" and closes the connection', async (host) => {
    const answer = await sendText(`GET /v1/ HTTP/1.1\nHost: ${host}\n\n`)

    expectError(parsed(answer), 400, 107, 'Host in header')
    expect(answer.headers.get('connection')).toBe('close')
  })

  it.each(['/v1/__version__', '/__lbheartbeat__', '/v1/unknown', '/x'])(
    'rejects it wherever it is sent, even if it appears in no URL: %s',
    async (target) => {
      const answer = await sendText(`GET ${target} HTTP/1.1\nHost: a b\n\n`)

      expectError(parsed(answer), 400, 107, 'Host in header')
    },
  )

  it('rejects two Host headers', async () => {
    const answer = await sendText('GET /v1/ HTTP/1.1\nHost: a.example\nHost: b.example\n\n')

    expectError(parsed(answer), 400, 107, 'Host in header')
  })

  it.each([
    ['no Host', 'GET /v1/ HTTP/1.1\n\n', 400],
    ['HTTP/0.9', 'GET /v1/\n\n', 505],
    ['an unknown version', 'GET /v1/ HTTP/1.32\nHost: a\n\n', 505],
    ['OPTIONS *', 'OPTIONS * HTTP/1.1\nHost: a\n\n', 400],
    [
      'both framings',
      'POST /v1/batch HTTP/1.1\nHost: a\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n',
      400,
    ],
    ['chunked twice', 'POST /v1/batch HTTP/1.1\nHost: a\nTransfer-Encoding: chunked, chunked\n\n0\n\n', 400],
    ['two lengths', 'POST /v1/batch HTTP/1.1\nHost: a\nContent-Length: 5\nContent-Length: 6\n\n123456', 400],
    ['a length with a sign', 'POST /v1/batch HTTP/1.1\nHost: a\nContent-Length: +5\n\n12345', 400],
    ['a negative length', 'POST /v1/batch HTTP/1.1\nHost: a\nContent-Length: -1\n\n', 400],
    ['a folded header', 'GET /v1/ HTTP/1.1\nHost: a\nX-A: b\n c\n\n', 400],
    ['a blank before the colon', 'GET /v1/ HTTP/1.1\nHost: a\nX-A : b\n\n', 400],
    ['NUL in a value', 'GET /v1/ HTTP/1.1\nHost: a\nX-A: b\u0000c\n\n', 400],
    ['endless headers', `GET /v1/ HTTP/1.1\nHost: a\nX-A: ${'a'.repeat(40_000)}\n\n`, 431],
  ])('is rejected by the parser: %s', async (_, text, status) => {
    const answer = await sendText(text)

    expect(answer.status).toBe(status)
    expect(answer.body).toBe('')
  })

  it.each(['FOO', 'get'])('closes the connection on the method %s', async (method) => {
    const answer = await send(method, '/v1/')

    expect(answer.text).toBe('')
  })

  it('serves every resource over HTTP/1.0 without Host, only if its own address is configured', async () => {
    await using named = await startTestBridge({ settings: { http_host: 'sync.example.org' } })
    named.sandbox.write(named.user, 'history', [{ id: 'a', payload: 'x' }])
    const credentials = headerLines(named.identityOf(named.user)).map((line) => `${line}\r\n`)
    const collection = `/v1/buckets/${named.user.clientState}/collections/history`

    const targets = ['/v1/', collection, `${collection}/records?_limit=1`, `${collection}/records/a?x`]
    const [root, ...others] = await Promise.all(
      targets.map((target) => sendRaw(named.url, `GET ${target} HTTP/1.0\r\n${credentials.join('')}\r\n`)),
    )
    const unconfigured = await sendText('GET /v1/ HTTP/1.0\n\n')

    expect(root!.status).toBe(200)
    expect(JSON.parse(root!.body).url).toBe('http://sync.example.org/v1')
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200])
    expectError(parsed(unconfigured), 400, 107, 'Host in header')
  })

  // The README says so; remove that once the runtime answers such clients.
  it('does not respond to a client that closes its sending side, and continues', async () => {
    const bytes = rawRequest('GET', `${bucket}/collections/history/records/r`, {
      url: bridge.url,
      lines: headerLines(bridge.identityOf(bridge.user)),
    })

    expect((await sendRaw(bridge.url, bytes, { halfClose: true })).text).toBe('')
    expect((await sendRaw(bridge.url, bytes)).status).toBe(200)
  })

  it('uses Host if the target is absolute', async () => {
    const answer = await send('GET', 'http://evil.example/v1/')

    expect(JSON.parse(answer.body).url).toBe(`${bridge.url}/v1`)
    expect(answer.text).not.toContain('evil')
  })

  it('rejects a fragment', async () => {
    const record = `${bucket}/collections/history/records/r#s`
    for (const target of [record, '/v1/#x', `${bucket}/collections/history/records?_limit=1#x`, '/x#y']) {
      expectError(parsed(await send('GET', target)), 400, 109, 'path in path')
    }
    expectError(parsed(await send('DELETE', record)), 400, 109, 'path in path')
    isUntouched()
  })
})

describe('bad input: open redirects', () => {
  const elsewhere = [
    '//evil.example/v1/', '///evil.example', '/\\/evil.example',
    '/%5Cevil.example/', '/%2Fevil.example/%2f..', '/%0d%0aLocation:%20http://evil.example', '/%00',
    '//evil.example/..', '/./\\evil.example', '//@evil.example/', '/v1//evil.example/',
    '/v1/\\evil.example/', '/%7f/', '/buckets/b/collections/c/records/%0d', '/buckets//b/collections/c/records/x',
  ] // prettier-ignore

  it.each(elsewhere)('%s does not redirect to another origin', async (target) => {
    const answer = await send('GET', target)

    expect(answer.status).toBeOneOf([307, 404])
    const location = answer.headers.get('location')
    if (location === null) return
    expect(new URL(location).origin).toBe(bridge.url)
    expect(location).toStartWith(`${bridge.url}/v1`)
    expect(location).not.toMatch(/\/\/.*\/\/|\\/)
  })

  it.each(['//evil.example', '/\\evil.example', '/%5cevil.example', '/%09/evil.example', '/%2fevil.example'])(
    '%s is not a path at all',
    async (target) => {
      const answer = await send('GET', target)

      expectError(parsed(answer), 404, 111)
      expect(answer.headers.get('location')).toBeNull()
    },
  )

  it('keeps disguised line breaks out of Location', async () => {
    const answer = await send('GET', '/x?a=%0d%0aSet-Cookie:%20b')

    expect(answer.headers.get('location')).toBe(`${bridge.url}/v1/x?a=%0d%0aSet-Cookie:%20b`)
    expect(answer.headers.get('set-cookie')).toBeNull()
  })
})

describe('bad input: dot segments and ids', () => {
  const dots = ['..', '.', '%2e%2e', '%2E', '%2e', '.%2e', '%2E.']

  // The runtime resolves dot segments before our code sees them: the rest is the path of the collection.
  it.each(dots)('has no record with the id %s, for any method', async (id) => {
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE']) {
      const body = method === 'PUT' ? '{"data":{"payload":"x"}}' : ''
      const lines =
        method === 'PUT' ? [`Content-Length: ${body.length}`, 'Content-Type: application/json'] : []
      const answer = await send(method, `${bucket}/collections/history/records/${id}`, { lines, body })

      expect([method, answer.status]).toEqual([method, 307])
      expect(answer.headers.get('location')).toMatch(/\/collections\/history(\/records)?$/)
    }
    expect(bridge.sandbox.requests.storage.entries).toEqual([])
  })

  it.each(['..%2f..', 'a%2f..', 'a/..%2fb', '%2e%2e%2fx', 'a%2f.%2fb'])(
    'rejects the record id %s, whose segments would lead elsewhere',
    async (id) => {
      const answer = await send('GET', `${bucket}/collections/history/records/${id}`)

      expectError(parsed(answer), 400, 109, 'record_id in path')
      expect(bridge.sandbox.requests.storage.entries).toEqual([])
    },
  )

  it.each(dots)('has no collection %s', async (collection) => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const record = await send(method, `${bucket}/collections/${collection}/records/storage`)
      const list = await send(method, `${bucket}/collections/${collection}/records`)

      expect([method, record.status]).toEqual([method, 404])
      expect(list.status).toBeOneOf([400, 404, 405])
    }
    expect(bridge.sandbox.requests.storage.entries).toEqual([])
  })

  it.each(dots)('has no bucket %s, even if its resolved path exists', async (id) => {
    for (const method of ['GET', 'HEAD']) {
      expect((await send(method, `/v1/buckets/${id}?ids=`)).status).toBe(404)
    }
  })

  it.each([...dots, '%2e%2e%2f', '..%2f..'])(
    'rejects %s while writes to its collection are disabled',
    async (id) => {
      const answer = await send('DELETE', `${bucket}/collections/tabs/records/${id}`)

      expect(answer.status).toBeOneOf([307, 405])
      isUntouched()
    },
  )

  const deletedPaths = [
    `/collections/history/records/r/..`, `/collections/history/records/r/../..`,
    `/collections/history/../history/records/..`, `/collections/history/records/r/%2e%2e/%2e%2e/%2e%2e`,
    '/..', '/../..', '/collections/..', '/collections/history/..',
    '/collections/history/records/x/../../../../storage',
  ] // prettier-ignore

  it.each(deletedPaths)('never deletes more than a record: DELETE %s', async (path) => {
    const answer = await send('DELETE', bucket + path)

    expect(answer.status).toBeOneOf([307, 400, 401, 404, 405])
    isUntouched()
  })

  it('finds nothing at a double slash', async () => {
    expectError(parsed(await send('GET', `/v1//buckets/${bridge.user.clientState}`)), 404, 111)
    expectError(parsed(await send('GET', `${bucket}//collections`)), 404, 111)
    expectError(parsed(await send('GET', `${bucket}/collections//history`)), 404, 111)
  })
})

describe('bad input: bodies and framing', () => {
  it.each([
    ['Content-Length: 1025', 'x'.repeat(1025), 'Content-Length in header'],
    ['Transfer-Encoding: chunked', '3\nabc\n0\n\n', 'Transfer-Encoding in header'],
  ] as const)(
    'rejects a GET with %s, with one response, and closes the connection',
    async (line, body, place) => {
      const answer = await sendText(`GET /v1/ HTTP/1.1\nHost: a\n${line}\n\n${body}`)

      const own = answer.body.slice(0, Number(answer.headers.get('content-length')))
      expectError({ ...answer, body: JSON.parse(own) }, 400, 107, place)
      expect(answer.headers.get('connection')).toBe('close')
      expect(afterFirst(answer)).toBe('')
    },
  )

  // The runtime joins equal lengths: as a number, that is none, and no bound holds.
  it.each(['GET', 'PUT', 'DELETE'])('rejects a %s with the same length twice, and closes', async (method) => {
    const twice = 'Content-Length: 3\nContent-Length: 3\nContent-Type: application/json'
    const target = `${bucket}/collections/history/records/r`

    const answer = await sendText(`${method} ${target} HTTP/1.1\nHost: a\n${twice}\n\n{ }`)

    expectError(parsed(answer), 400, 107, 'Content-Length in header')
    expect(answer.headers.get('connection')).toBe('close')
  })

  it('ignores the small body of a GET, and does not parse it as another request', async () => {
    const hidden = 'GET /v1/__version__ HTTP/1.1\r\nHost: a\r\n\r\n'

    const answer = await sendText(
      `GET /v1/ HTTP/1.1\nHost: a\nConnection: close\nContent-Length: ${hidden.length}\n\n${hidden}`,
    )

    expect(answer.status).toBe(200)
    expect(afterFirst(answer)).toBe('')
  })

  /** The head of a PUT that announces that many bytes. */
  const headOfPut = (length: number) =>
    rawRequest('PUT', `${bucket}/collections/history/records/new`, {
      url: bridge.url,
      lines: [
        ...headerLines(bridge.identityOf(bridge.user)),
        'Content-Type: application/json',
        `Content-Length: ${length}`,
      ],
    })
  const put = (body: string | Buffer) => {
    const bytes = Buffer.from(body as string)
    return sendRaw(bridge.url, Buffer.concat([headOfPut(bytes.length), bytes]))
  }

  it('rejects bytes that are not UTF-8', async () => {
    const bytes = Buffer.from('{"data":{"payload":"\u00ff\u00fe"}}', 'latin1')

    expectError(parsed(await put(bytes)), 400, 109, 'body in body')
    isUntouched()
  })

  it('accepts a byte order mark', async () => {
    const answer = await put('\ufeff{"data":{"payload":"x"}}')
    await send('DELETE', `${bucket}/collections/history/records/new`)

    expect(answer.status).toBe(200)
  })

  it('rejects a body that announces too large a size without reading it', async () => {
    const answer = await sendRaw(bridge.url, headOfPut(3_000_000))

    expectError(parsed(answer), 413, 113)
    expect(answer.headers.get('connection')).toBe('close')
  })

  it('does nothing for a body that ends too early', async () => {
    const body = Buffer.from('{"data":{"payload":"x"}}')

    await sendRaw(bridge.url, Buffer.concat([headOfPut(100), body]), { halfClose: true })

    isUntouched()
  })

  it('does nothing for a body with trailers, which the server rejects', async () => {
    const target = `${bucket}/collections/history/records/new`
    const lines = [...headerLines(bridge.identityOf(bridge.user)), 'Transfer-Encoding: chunked']
    const body = '18\r\n{"data":{"payload":"x"}}\r\n0\r\nSum: 1\r\n\r\n'
    const known = bridge.logs.length

    const answer = await sendRaw(bridge.url, rawRequest('PUT', target, { url: bridge.url, lines, body }))
    const isHandled = () => bridge.logs.slice(known).some((line) => line.includes('"method":"PUT","route"'))
    await eventually('the request is handled', isHandled)

    expect(answer.status).toBe(400)
    isUntouched()
  })

  it.each([
    ['OPTIONS', '/v1/batch'],
    ['GET', '/v1/'],
    ['POST', '/v1/batch'],
    ['PUT', `/v1/buckets/${'0'.repeat(32)}/collections/tabs/records/new`],
    ['PUT', `/v1/buckets/${'0'.repeat(32)}/collections/history/records/new`],
    ['DELETE', `/v1/buckets/${'0'.repeat(32)}/collections/history/records/new`],
  ])('responds once to %s %s with a broken chunk, and closes the connection', async (method, path) => {
    const head = `${method} ${path} HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n`

    const atOnce = await sendRaw(bridge.url, `${head}zz\r\nbroken`)
    const later = await sendRaw(bridge.url, `${head}1\r\nx\r\n`)

    for (const { text } of [atOnce, later]) expect(text.match(/HTTP\/1\.1 /g)).toHaveLength(1)
    expect(later.headers.get('connection')).toBe('close')
  })
})

describe('bad input: the rest', () => {
  it('accepts 100 parameters of a query, and not 101', async () => {
    const query = (count: number) => Array.from({ length: count }, (_, at) => `p${at}=1`).join('&')
    const ask = (count: number) => send('GET', `${bucket}/collections/history/records?${query(count)}`)

    expect((await ask(100)).status).toBe(200)
    expectError(parsed(await ask(101)), 400, 109, 'querystring in querystring')
  })

  it('closes a connection with a second request before the first response, and keeps nothing of it', async () => {
    const url = `${bucket}/collections/history/records`
    const request = rawRequest('GET', url, {
      url: bridge.url,
      lines: headerLines(bridge.identityOf(bridge.user)),
    })
    const pipelined = Buffer.from(String(request).replace('Connection: close\r\n', ''))

    // A user may have 64 requests in flight, so these come in groups, each after the one before has ended.
    for (let group = 0; group < 7; group += 1) {
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => sendRaw(bridge.url, Buffer.concat([pipelined, pipelined]))),
      )
      expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(0))
      await bridge.ask(url)
    }

    // None of these 70 is in flight any more.
    await eventually('nothing is held', async () => (await bridge.ask(url)).status === 200)
    const later = await Promise.all(Array.from({ length: 60 }, () => bridge.ask(url)))
    expect(later.map(({ status }) => status)).toEqual(Array(60).fill(200))
    isUntouched()
  })

  it('stores nothing on the prototype of objects', async () => {
    await send('GET', `${bucket}/collections/history/records?__proto__=1&constructor=2&__proto__[polluted]=1`)
    await send('GET', '/v1/__proto__/constructor')

    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
    expect(Object.keys(Object.prototype)).toEqual([])
  })

  it('does not pass unknown parameters on, and names the order, newest first by default', async () => {
    await send('GET', `${bucket}/collections/history/records?full=0&ids=other&evil=1&sort=none&offset=9`)

    const { target } = bridge.sandbox.requests.storage.entries.at(-1)!
    expect(target.split('?')[1]).toBe('full=1&sort=newest')
  })

  const unknownPreferences = [
    'Range: bytes=0-1', 'Expect: 100-continue', 'Upgrade: h2c', 'Upgrade: websocket',
    'Accept-Encoding: gzip, br',
  ] // prettier-ignore

  it.each(unknownPreferences)('ignores %s', async (line) => {
    const answer = await send('GET', `${bucket}/collections/history/records/r`, { lines: [line] })

    expect(answer.text).toMatch(/HTTP\/1\.1 200 /)
    expect(answer.text).toContain('"payload":"x"')
    expect(answer.headers.get('content-encoding')).toBeNull()
  })

  it.each(['\u00f0\u009f\u0098\u0080', 'a\tb', 'x'.repeat(10_000)])(
    'sends the storage a short and plain User-Agent, given %p',
    async (agent) => {
      const lines = [`User-Agent: ${agent}`]
      const answer = await send('GET', `${bucket}/collections/history/records/r`, { lines })

      expect(answer.status).toBe(200)
      const sent = bridge.sandbox.requests.storage.entries.at(-1)!.headers.get('user-agent')!
      expect(sent).toMatch(/^[ -~]{1,300}$/)
    },
  )

  it.each([
    ['_limit=1&x=\u00e9', 200],
    ['_since=\u00e9', 400],
    [`in_ids=${'x,'.repeat(3000)}`, 200],
  ])('survives raw bytes and long lists in a query: %#', async (query, status) => {
    const answer = await send('GET', `${bucket}/collections/history/records?${query}`)

    expect(answer.status).toBe(status)
  })

  it('serves a next page that keeps raw bytes of the query', async () => {
    const user = bridge.sandbox.addUser('raw-query')
    bridge.sandbox.seed(user, 'forms', 2)
    const target = `/v1/buckets/${user.clientState}/collections/forms/records?_limit=1&x=\u00e9<>"'`

    const answer = await send('GET', target, { as: user })

    expect(answer.status).toBe(200)
    expect(answer.headers.get('next-page')).toMatch(/^[!-~]+&_token=[\w-]+$/)
  })
})

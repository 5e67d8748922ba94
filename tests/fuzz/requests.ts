import { mutated, toBytes } from './bytes.ts'

import type { Chance } from './chance.ts'

/** A request as sent, in parts. */
export interface FuzzedRequest {
  method: string
  target: string
  version: string
  headers: [name: string, value: string][]
  body: Buffer | null
  framing: 'length' | 'chunked'
  /** Whether it is valid HTTP: then it must be answered, whatever it asks for. */
  isWellFormed: boolean
  /** Bytes that replace all of that. */
  raw: Buffer | null
}

/** The user that requests are generated for. */
export interface Owner {
  bucket: string
  authorization: string
  assertion: string
  keyId: string
}

/** Collections by what is allowed with them; see the settings of the bridge under test. */
export const collections = {
  putAndDelete: ['history', 'forms'],
  put: ['tabs'],
  read: ['passwords', 'bookmarks', 'meta', 'never-used'],
}

const strange = [
  '', '.', '..', '...', '/', '//', '\\', '..\\', '%', '%2', '%zz', '%2e', '%2E%2e', '%252e', '%2f', '%5c',
  '%00', '%0d%0a', '%ff', '%c0%ae', '%e2%80%ae', '%F0%9F%92%A9', ';', '?', '#', '&', '=', '+', ',', ':',
  '@', '*', '{', '}', '{a/b}', '"', "'", '<', '|', '~', '^', '`', ' ', '%20', '-1', '0', '1e9',
  '9'.repeat(40), 'null', 'undefined', 'true', '__proto__', 'constructor', 'toString', 'hasOwnProperty',
  'a'.repeat(64), 'a'.repeat(65), 'a'.repeat(300), 'A', 'İ', 'é', '\u00ad', '\u00ff', '$&', '$1', '%s',
  '%n', 'batch', 'storage', 'records', 'v1',
] // prettier-ignore
const ids = ['a', 'b', 'c', 'x/y', '{guid}', 'AAAAAAAA==', 'abc+def/', '__metrics__', '-', '_']
const numbers = [
  '0', '1', '-1', '10', '00', '1.5', '1e3', '0x10', ' 1', '1 ', '9007199254740993', '999999999999999',
  '9'.repeat(30), 'NaN', 'Infinity', '',
] // prettier-ignore
const fixed = [
  '', '/', '/__heartbeat__', '/__lbheartbeat__', '/__version__', '/__api__', '/docs', '/docs/', '/docs/x',
  '/swagger', '/explore', '/__metrics__', '/batch', '/buckets',
] // prettier-ignore

const methods = [
  'GET', 'GET', 'GET', 'HEAD', 'PUT', 'PUT', 'DELETE', 'POST', 'POST', 'OPTIONS', 'PATCH',
] // prettier-ignore
const prefixes = [
  '', '/v2', '/V1', '/v1.5', '/v', '/v01', '//v1', '/v1/.', '/x/../v1', '/v1\\', '/%761', '/v1;a',
] // prettier-ignore
const hosts = [
  '', 'a', 'a:80', '[::1]:8000', '[::1', 'a/b', 'a,b', 'x'.repeat(300), 'evil@a', 'a:99999', '127.0.0.1',
  'a..b',
] // prettier-ignore
const targets = [
  '*', '', 'http://', 'http://evil.example/v1/', 'http://a/v1/__version__', '//evil.example/v1', 'x',
  '/v1/\t', '/v1/ x', '\\v1', 'ftp://a/v1',
] // prettier-ignore
const subMethods = [
  'GET', 'HEAD', 'PUT', 'PUT', 'PUT', 'DELETE', 'POST', 'PATCH', 'OPTIONS', 'get', '', 'TRACE',
] // prettier-ignore
const jsonNumbers = [
  '0', '-0', '1', '-1', '1.5', '1e999', '-1e999', '9007199254740993', '1'.repeat(400), '1e-400',
  '999999999', '1000000000',
] // prettier-ignore
const parameters = [
  '_since', '_before', 'gt_last_modified', 'lt_last_modified', '_sort', '_limit', '_token', 'in_ids', 'in_id',
  'exclude_id', 'full', 'ids',
] // prettier-ignore
/** Generates the next request of a user: random in all of its parts, or in one part of an otherwise valid request. */
export function makeRequest(chance: Chance, owner: Owner): FuzzedRequest {
  return chance.isTrue(0.5) ? soundRequest(chance, owner) : randomRequest(chance, owner)
}

function plainRequest(method: string, target: string): FuzzedRequest {
  const whole = { version: 'HTTP/1.1', body: null, framing: 'length', isWellFormed: true, raw: null } as const
  return { method, target, headers: [], ...whole }
}

function soundRequest(chance: Chance, owner: Owner): FuzzedRequest {
  const request = plainRequest('GET', soundPath(chance, owner))
  request.headers.push(
    ['Host', 'bridge.example'],
    ['Authorization', owner.authorization],
    ['X-KeyID', owner.keyId],
  )
  const isRecord = /records\/./.test(request.target)
  if (isRecord) request.method = chance.of(['GET', 'HEAD', 'PUT', 'PUT', 'DELETE'])
  if (chance.isTrue(0.25)) {
    request.method = 'POST'
    request.target = '/v1/batch'
    const requests = Array.from({ length: 1 + chance.below(8) }, () =>
      chance.isTrue(0.9) ? soundSubRequest(chance, owner) : subRequest(chance, owner),
    )
    request.body = Buffer.from(`{"requests":[${requests.join(',')}]}`)
  }
  if (request.method === 'PUT') request.body = Buffer.from(recordText(chance))
  if (request.body) request.headers.push(['Content-Type', 'application/json'])
  if (request.body && chance.isTrue(0.1)) request.framing = 'chunked'
  if (chance.isTrue(0.2))
    request.headers.push([chance.of(['If-Match', 'If-None-Match']), chance.of(versions)])
  if (request.method === 'GET' && chance.isTrue(0.2)) request.target += printable(query(chance))
  if (chance.isTrue(0.1)) request.target = printable(insert(request.target, chance))
  if (chance.isTrue(0.1)) request.target = detour(request.target, chance)
  if (chance.isTrue(0.05)) request.headers.push(chance.of(request.headers))
  if (chance.isTrue(0.05)) {
    // One character more or less in one header; in buckets that are no client state, the headers decide who the user is.
    const header = chance.of(request.headers)
    const at = chance.below(header[1].length + 1)
    const rest = header[1].slice(chance.isTrue(0.5) ? at : at + 1)
    request.headers[request.headers.indexOf(header)] = [
      header[0],
      `${header[1].slice(0, at)}${chance.of(['', 'A', '-', '0'])}${rest}`,
    ]
    if (chance.isTrue(0.5)) request.target = request.target.replace(owner.bucket, 'default')
  }
  return request
}

function soundPath(chance: Chance, owner: Owner): string {
  const collection = chance.of(
    chance.isTrue(0.8) ? collections.putAndDelete : Object.values(collections).flat(),
  )
  const records = `/v1/buckets/${owner.bucket}/collections/${collection}/records`
  return chance.isTrue(0.3)
    ? records
    : `${records}/${encodeId(chance.of(ids), chance).replace(/[{}]/g, encodeURIComponent)}`
}

function soundSubRequest(chance: Chance, owner: Owner): string {
  const path = soundPath(chance, owner)
  const method = /records\/./.test(path) ? chance.of(['GET', 'HEAD', 'PUT', 'PUT', 'DELETE']) : 'GET'
  const headers = chance.isTrue(0.2)
    ? { [chance.of(['If-Match', 'If-None-Match'])]: chance.of(versions) }
    : {}
  const body = method === 'PUT' ? `,"body":${recordText(chance)}` : ''
  return `{"method":"${method}","path":${JSON.stringify(path)},"headers":${JSON.stringify(headers)}${body}}`
}

const versions = [
  '"0"', '"10"', '10', 'W/"10"', '*', '*', '*', '"*"', '"1","2"', '""', '', '-1', '"9999999999999"',
  '"99999999999999999999"', 'x', '"1e3"',
] // prettier-ignore

function randomRequest(chance: Chance, owner: Owner): FuzzedRequest {
  const request = plainRequest(method(chance), target(chance, owner))
  addHeaders(request, chance, owner)
  if (request.method === 'POST' && chance.isTrue(0.9)) {
    request.target = chance.isTrue(0.95) ? '/v1/batch' : request.target
    request.body = Buffer.from(batchText(chance, owner))
  } else if (request.method === 'PUT' || chance.isTrue(0.03)) {
    request.body = Buffer.from(chance.isTrue(0.8) ? recordText(chance) : jsonText(chance, 3))
  }
  if (request.body && chance.isTrue(0.03)) request.body = mutated(request.body, chance)
  if (request.body && chance.isTrue(0.1)) request.framing = 'chunked'
  if (chance.isTrue(0.04)) spoil(request, chance)
  if (chance.isTrue(0.03)) {
    request.raw = mutated(toBytes(request, 'raw'), chance)
    request.isWellFormed = false
  }
  return request
}

function method(chance: Chance): string {
  if (chance.isTrue(0.95)) return chance.of(methods)
  return chance.of(['TRACE', 'PROPFIND', 'PURGE', 'SEARCH', 'LOCK'])
}

function target(chance: Chance, owner: Owner): string {
  const prefix = chance.isTrue(0.9) ? '/v1' : chance.of(prefixes)
  const path = chance.isTrue(0.85)
    ? bucketPath(chance, owner)
    : chance.of(fixed) + (chance.isTrue(0.2) ? chance.of(strange) : '')
  const whole = (prefix + path || '/').replace(/^(?!\/)/, '/') + (chance.isTrue(0.5) ? query(chance) : '')
  const sent = printable(chance.isTrue(0.03) ? insert(whole, chance) : whole)
  return chance.isTrue(0.1) ? detour(sent, chance) : sent
}

/** A path below a bucket, without the version. Most belong to the user; some are others', or don't exist. */
function bucketPath(chance: Chance, owner: Owner): string {
  const bucket = chance.isTrue(0.93)
    ? owner.bucket
    : chance.of([owner.bucket.toUpperCase(), 'default', 'syncto', 'f'.repeat(32), chance.of(strange)])
  const collection = chance.isTrue(0.9)
    ? chance.of(Object.values(collections).flat())
    : chance.of([...strange, 'History', 'TABS', 'history%20', 'history.', 'crypto'])
  const id = chance.isTrue(0.7) ? encodeId(chance.of(ids), chance) : chance.of(strange)
  const whole = ['', '/buckets', `/${bucket}`, '/collections', `/${collection}`, '/records', `/${id}`]
  const path = whole.slice(0, chance.isTrue(0.8) ? chance.of([6, 7, 7]) : 2 + chance.below(6)).join('')
  return chance.isTrue(0.05)
    ? path +
        chance.of(['/', '//', '/.', '/..', '/x', '\\..', '/%2e%2e', '?', '/../..', '/../../../../storage'])
    : path
}

function encodeId(id: string, chance: Chance): string {
  return chance.isTrue(0.5) ? encodeURIComponent(id) : id
}

function query(chance: Chance): string {
  const parameter = (): string => {
    const name = chance.of([...parameters, chance.of(strange)])
    const value = chance.of([
      () => chance.of(numbers),
      () => `%22${chance.of(numbers)}%22`,
      () => chance.of(['newest', 'oldest', 'index', '-last_modified', '-sortindex', 'NEWEST']),
      () => chance.some(6, () => chance.of([...ids, chance.of(strange)])).join(','),
      () =>
        Buffer.from(
          chance.of(['1.0.skip:5', '1.10.2:10', '2.x', '1.99999999999999999.a', chance.of(strange)]),
        ).toString('base64url'),
      () => chance.of(strange),
    ])()
    return chance.isTrue(0.9) ? `${name}=${value}` : name
  }
  return `?${Array.from({ length: 1 + chance.below(4) }, parameter).join('&')}`
}

function addHeaders(request: FuzzedRequest, chance: Chance, owner: Owner): void {
  const add = (name: string, value: string) => void request.headers.push([name, latin1(value)])
  add('Host', chance.isTrue(0.96) ? 'bridge.example' : chance.of(hosts))
  const who = chance.next()
  if (who < 0.86) {
    add('Authorization', owner.authorization)
    add('X-KeyID', owner.keyId)
  } else if (who < 0.92) add('Authorization', owner.assertion)
  else if (who < 0.97) {
    add(
      'Authorization',
      chance.of([
        'Bearer',
        'Bearer x',
        'BrowserID a~b',
        'Basic YTpi',
        'bearer  x',
        '',
        'Bearer a,b',
        'Bearer é',
        owner.authorization + 'x',
        `Bearer ${'x'.repeat(9000)}`,
      ]),
    )
    if (chance.isTrue(0.5))
      add('X-KeyID', chance.of([owner.keyId, '1-', 'x', '1-AAAA', '9'.repeat(200), '1-' + 'A'.repeat(129)]))
  }
  const often = (probability: number, name: string, values: readonly string[]) => {
    if (chance.isTrue(probability)) add(name, chance.of(values))
  }
  often(0.15, 'If-Match', versions)
  often(0.15, 'If-None-Match', versions)
  often(0.1, 'Origin', ['https://app.example', 'null', 'x'.repeat(2000), '', 'https://a, https://b'])
  often(0.05, 'Prefer', ['return=representation', 'return=minimal', ';;;', 'x'.repeat(5000)])
  often(0.05, 'X-Client-State', [owner.bucket, 'x', '', 'é', 'a'.repeat(33)])
  often(0.05, 'Accept', ['application/json', 'text/html', '*/*;q=0', 'x'])
  often(0.05, 'Accept-Encoding', ['gzip', 'br, gzip;q=0.5', 'identity;q=0'])
  often(0.05, 'User-Agent', ['x', 'Mozilla/5.0 (\\)', '\t', 'é', '(((((', 'x'.repeat(3000)])
  often(0.03, 'Expect', ['100-continue', 'x'])
  often(0.03, 'X-HTTP-Method-Override', ['DELETE'])
  often(0.03, 'Upgrade', ['websocket', 'h2c'])
  often(0.03, 'Access-Control-Request-Method', ['PUT', 'x'])
  often(0.03, 'Access-Control-Request-Headers', ['x-a, x-b', ',,,', 'é', 'x'.repeat(500)])
  often(0.9, 'Content-Type', [
    'application/json',
    'application/json',
    'application/json',
    'application/json; charset=utf-8',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json; charset=latin1',
    '',
  ])
  often(0.02, 'Content-Encoding', ['gzip', 'identity', 'x'])
  often(
    0.03,
    chance.of(['x-a', '__proto__', 'constructor', 'X-Weave-Timestamp', 'x-if-unmodified-since', 'X-I-Am']),
    strange.map(headerSafe),
  )
  if (chance.isTrue(0.03)) request.headers.push(chance.of(request.headers))
}

/** Violates the rules of HTTP. */
function spoil(request: FuzzedRequest, chance: Chance): void {
  request.isWellFormed = false
  chance.of([
    () => (request.version = chance.of(['HTTP/1.0', 'HTTP/2.0', 'HTTP/1.2', 'http/1.1', 'HTTP/1.1 ', ''])),
    () => (request.method = chance.of(['get', 'FOO', 'G ET', '', 'GET\t', 'X'.repeat(200), 'CONNECT'])),
    () => (request.target = chance.of(targets)),
    () =>
      request.headers.push(
        chance.of<[string, string]>([
          ['Content-Length', '5'],
          ['Content-Length', '-1'],
          ['Content-Length', '1e3'],
          ['Transfer-Encoding', 'chunked'],
          ['Transfer-Encoding', 'gzip, chunked'],
          ['Transfer-Encoding', 'x'],
          [' X', 'folded'],
          ['X :', 'y'],
          ['', 'y'],
          ['Host', 'second.example'],
          ['Connection', 'close, X-KeyID'],
          ['Connection', 'upgrade'],
          ['X', 'a\rb'],
          ['X', 'a\0b'],
        ]),
      ),
    () => (request.headers = request.headers.filter(([name]) => name !== 'Host')),
    () => (request.headers = Array.from({ length: 300 }, (_, at): [string, string] => [`X-${at}`, 'y'])),
    () => request.headers.push(['X-Long', 'y'.repeat(20_000)]),
  ])()
}

const recordText = (chance: Chance) =>
  chance.isTrue(0.6)
    ? JSON.stringify({
        data: {
          payload: `payload ${chance.below(1e9)}`,
          ...(chance.isTrue(0.3) && { sortindex: chance.below(100) }),
          ...(chance.isTrue(0.2) && { ttl: 100 + chance.below(1000) }),
        },
      })
    : `{"data":${jsonText(chance, 2, ['payload', 'sortindex', 'ttl', 'id', 'last_modified', 'x'])}${chance.isTrue(0.1) ? `,"permissions":${jsonText(chance, 2)}` : ''}}`

function batchText(chance: Chance, owner: Owner): string {
  if (chance.isTrue(0.1))
    return jsonText(chance, 3, ['defaults', 'requests', 'path', 'method', 'headers', 'body'])
  const requests = chance.some(8, () => subRequest(chance, owner))
  const defaults = chance.isTrue(0.3) ? `"defaults":${subRequest(chance, owner)},` : ''
  return `{${defaults}"requests":[${requests.join(',')}]}`
}

function subRequest(chance: Chance, owner: Owner): string {
  const members: string[] = []
  const put = (name: string, text: string) =>
    members.push(`${JSON.stringify(name)}:${chance.isTrue(0.03) ? jsonText(chance, 2) : text}`)
  if (chance.isTrue(0.7)) put('method', JSON.stringify(chance.of(subMethods)))
  if (chance.isTrue(0.95))
    put(
      'path',
      JSON.stringify(
        chance.isTrue(0.9)
          ? (chance.isTrue(0.3) ? '/v1' : '') +
              bucketPath(chance, owner) +
              (chance.isTrue(0.3) ? query(chance) : '')
          : chance.of([
              ...fixed,
              '/batch',
              '/v1/%62atch',
              '//x',
              '/v1/../v1/batch',
              'http://evil.example/',
              ...strange,
            ]),
      ),
    )
  if (chance.isTrue(0.3)) {
    const entries = chance.some(
      4,
      () =>
        `${JSON.stringify(chance.of(['If-Match', 'if-none-match', 'Authorization', 'X-KeyID', 'Prefer', 'X', chance.of(strange)]))}:${chance.isTrue(0.9) ? JSON.stringify(chance.of(['"10"', '*', '', 'x', 'return=representation', owner.authorization, owner.keyId, chance.of(strange)])) : jsonText(chance, 1)}`,
    )
    put('headers', `{${entries.join(',')}}`)
  }
  if (chance.isTrue(0.5)) put('body', recordText(chance))
  if (chance.isTrue(0.03)) put(chance.of(strange), '1')
  return `{${members.join(',')}}`
}

/** JSON of any shape, nearly always parseable. */
function jsonText(chance: Chance, depth: number, names: readonly string[] = strange): string {
  const kind = chance.below(depth > 0 ? 10 : 7)
  switch (kind) {
    case 0:
      return chance.of(['null', 'true', 'false', '[]', '{}'])
    case 1:
      return chance.of(jsonNumbers)
    case 2:
      return JSON.stringify(chance.of(strange))
    case 3:
      return chance.of(['"\\ud800"', '"\\u0000"', '"\\u202e"', '"\ud83d\udca9"', '"\\n\\r"', '"\\/"'])
    case 4:
      return `"${'x'.repeat(chance.below(3000))}"`
    case 5:
      return `${'['.repeat(chance.of([1, 5, 31, 32, 33, 200]))}`
    case 6:
      return '"text"'
    case 7:
      return `[${chance.some(5, () => jsonText(chance, depth - 1, names)).join(',')}]`
    default:
      return `{${chance.some(5, () => `${JSON.stringify(chance.isTrue(0.8) ? chance.of(names) : chance.of(strange))}:${jsonText(chance, depth - 1, names)}`).join(',')}}`
  }
}

const separators = [
  '/..\\', '\\', '..\\', '/../', '/./', '//', '%2f', '%5c', '/..%2f', '/..%5c', '\\..\\', '/%2e%2e\\',
  '/.%2e/', '/x/../', '/x\\..\\', '/;/',
] // prettier-ignore

/** A different separator of path segments, which one parser may accept and another may not. */
function detour(target: string, chance: Chance): string {
  const segments = target.split('/')
  if (segments.length < 3) return target
  const at = 2 + chance.below(segments.length - 2)
  const [before, after] = [segments.slice(0, at).join('/'), segments.slice(at).join('/')]
  return `${before}${chance.of(separators)}${after}`
}

function insert(text: string, chance: Chance): string {
  const at = 1 + chance.below(text.length)
  return text.slice(0, at) + chance.of(strange) + text.slice(at)
}

// The characters that a request line can contain: no spaces, only Latin-1.
function printable(text: string): string {
  return text.replace(/[^\x21-\x7e]/g, (character) =>
    encodeURIComponent(character.isWellFormed() ? character : '?'),
  )
}

function headerSafe(text: string): string {
  return latin1(text.replace(/[\0\r\n]/g, '?'))
}

function latin1(text: string): string {
  return text.replace(/[^\x20-\x7e\t\x80-\xff]/g, '?')
}

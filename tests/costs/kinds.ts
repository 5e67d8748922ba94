import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** A kind of input whose size an unauthenticated client chooses. */
export interface Kind {
  name: string
  /** In bytes, from the smallest compared size to the largest accepted one. */
  sizes: number[]
  /** Costs below this count as equal: per byte, relative to copying and parsing a byte of plain text. */
  indistinct: number
  /** A request in which it has about that size; 0: the minimum. */
  request(size: number): Uint8Array
}

/** The maximum that the settings of the bridge under test accept; the largest allowed values. */
export const limits = { requestBytes: 8 * 1024 * 1024, batchRequests: 1000, subRequestsLength: 1024 * 1024 }

const defaultSize = 16 * 1024

const headSizes = [2, 15].map((kilobytes) => kilobytes * 1024)
const pathSizes = [2, 16].map((kilobytes) => kilobytes * 1024 - 200)
const bodySizes = [4, 128].map((kilobytes) => kilobytes * 1024)
const largestBody = limits.requestBytes - 2048

/** Every kind of input whose size an unauthenticated client can choose; authenticated where that reaches more code. */
export function kindsOf(user: SandboxUser): Kind[] {
  const identity = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }
  const records = `/buckets/${user.clientState}/collections/history/records`
  const post = (path: string, body: string, headers: object = {}) =>
    request('POST', path, { ...identity, 'Content-Type': 'application/json', ...headers }, body)
  const batch = (body: unknown) => post('/v1/batch', JSON.stringify(body))
  const heads = (name: string, make: (size: number) => [path: string, headers: object]): Kind => ({
    name,
    sizes: headSizes,
    indistinct: 45,
    request: (size) => request('GET', ...make(size)),
  })
  const bodies = (name: string, make: (size: number) => string): Kind => ({
    name,
    sizes: [...bodySizes, largestBody],
    indistinct: 27,
    request: (size) => post('/v1/batch', make(size)),
  })
  const paths = (name: string, make: (size: number) => string): Kind => ({
    name: `a sub-request's path: ${name}`,
    sizes: pathSizes,
    indistinct: 45,
    request: (size) => batch({ requests: [{ path: make(size) }] }),
  })
  const requestsLike = (count: number, defaults: object) =>
    batch({ defaults, requests: Array.from({ length: Math.max(1, Math.floor(count)) }, () => ({})) })
  const defaults = (name: string, make: (size: number) => object): Kind => ({
    name: `defaults: ${name}`,
    sizes: [64 * 1024, limits.subRequestsLength],
    indistinct: 45,
    request: (size) => requestsLike(size / defaultSize, make(defaultSize - 300)),
  })
  const counts = (name: string, make: object): Kind => ({
    name: `sub-requests: ${name}`,
    sizes: [limits.batchRequests * 102, limits.batchRequests * 1024],
    indistinct: 90,
    request: (size) => requestsLike(size / 1024, make),
  })

  return [
    ...spellings.map(([name, piece]) =>
      heads(`a path of ${name}`, (size) => [`/v1/${repeated(piece, size)}`, {}]),
    ),
    ...spellings.map(([name, piece]) =>
      heads(`a record id of ${name}`, (size) => [`/v1${records}/${repeated(piece, size)}`, identity]),
    ),
    ...queries.map(([name, make]) =>
      heads(`a query of ${name}`, (size) => [`/v1${records}?${make(size)}`, identity]),
    ),
    ...Object.entries({
      Authorization: ['Bearer ', 'BrowserID ', 'Bearer x~', ' '],
      'X-KeyID': ['1-', '1', ' '],
      'X-Client-State': ['a'],
      'If-Match': ['"', '"1', 'W/', ' '],
      'If-None-Match': ['W/"', '*'],
      Prefer: ['return=', ';', ',', ' '],
      Origin: ['https://a', ' '],
      Cookie: ['a=b;', ';', '='],
      'User-Agent': ['x', '(', ' '],
      'X-Request-Id': ['a', ' '],
      'Content-Type': ['application/json ', 'application/json;', ';'],
      Accept: ['a,', '*/*;q=1,'],
      'Access-Control-Request-Headers': ['a,', ','],
    }).flatMap(([name, pieces]) =>
      pieces.map((piece) =>
        heads(`${name}: ${piece} over and over`, (size) => [
          `/v1${records}/x`,
          { ...identity, [name]: `x${repeated(piece, size)}x` },
        ]),
      ),
    ),
    heads('an assertion of many parts', (size) => [
      `/v1${records}/x`,
      { Authorization: `BrowserID ${repeated('a.e30.c~', Math.min(size, 8000))}` },
    ]),
    heads('many headers', (size) => [
      `/v1${records}/x`,
      {
        ...identity,
        ...Object.fromEntries(Array.from({ length: size / 160 }, (_, at) => [`X-${at}`, 'v'.repeat(150)])),
      },
    ]),
    {
      name: 'header names that a preflight requests',
      sizes: headSizes,
      indistinct: 45,
      request: (size) =>
        request('OPTIONS', `/v1${records}`, {
          Origin: 'https://a',
          'Access-Control-Request-Headers': repeated('x-a,', size),
        }),
    },

    bodies('a payload', (size) => put(records, `"${'x'.repeat(size)}"`)),
    bodies('a payload of escapes', (size) => put(records, `"${'\\"'.repeat(size / 2)}"`)),
    bodies('a payload of backslashes', (size) => put(records, `"${'\\\\'.repeat(size / 2)}"`)),
    bodies('a payload of escaped characters', (size) => put(records, `"${'\\u00e9'.repeat(size / 6)}"`)),
    bodies('a payload of other scripts', (size) => put(records, `"${'é€𝄞'.repeat(size / 9)}"`)),
    bodies('objects side by side', (size) => '{}'.repeat(size / 2)),
    bodies('objects in a list', (size) => `{"requests":[${repeated('{},', size)}{}]}`),
    bodies('lists side by side', (size) => '[]'.repeat(size / 2)),
    bodies('open brackets', (size) => '['.repeat(size)),
    bodies('closed brackets', (size) => ']'.repeat(size)),
    bodies('quotes', (size) => '"'.repeat(size)),
    bodies('backslashes outside strings', (size) => '\\'.repeat(size)),
    bodies('commas', (size) => `[${','.repeat(size)}]`),
    bodies('blanks', (size) => `{"requests":[${' '.repeat(size)}]}`),
    bodies('spaces after names', (size) => `{"requests"${' '.repeat(size)}:[]}`),
    bodies('strings and spaces', (size) => `{"requests":[${repeated('""    ', size)}]}`),
    bodies('a number', (size) => `{"requests":[${'1'.repeat(size)}]}`),
    bodies('an exponent', (size) => `{"requests":[1e${'1'.repeat(size)}]}`),
    bodies('one name', (size) => `{"${'k'.repeat(size)}":1}`),
    bodies(
      'one name of a header',
      (size) => `{"requests":[{"path":"/","headers":{"${'k'.repeat(size)}":""}}]}`,
    ),
    bodies(
      'one value of a header',
      (size) => `{"requests":[{"path":"/","headers":{"a":"${'k'.repeat(size)}"}}]}`,
    ),
    bodies('one path', (size) => `{"requests":[{"path":"/x${'/'.repeat(size)}x"}]}`),
    bodies('one path of letters', (size) => `{"requests":[{"path":"/${'x'.repeat(size)}"}]}`),
    bodies('one method', (size) => `{"requests":[{"path":"/","method":"${'x'.repeat(size)}"}]}`),
    bodies('names', (size) => `{${counted(size / 24, (at) => `"name of a member ${at}":1`)}}`),
    bodies(
      'names with a common prefix',
      (size) => `{${counted(size / 200, (at) => `"${'n'.repeat(180)}${at}":1`)}}`,
    ),
    bodies('names with escapes', (size) => `{${counted(size / 24, (at) => `"\\u0061 name ${at}":1`)}}`),
    bodies(
      'names of headers',
      (size) =>
        `{"requests":[{"path":"/","headers":{${counted(size / 24, (at) => `"header-name-${at}":""`)}}}]}`,
    ),
    bodies(
      'members of a body',
      (size) =>
        `{"requests":[{"path":"/","body":{${counted(size / 24, (at) => `"member of body ${at}":1`)}}}]}`,
    ),
    bodies(
      'members of the body in defaults',
      (size) =>
        `{"defaults":{"body":{${counted(size / 24, (at) => `"member of body ${at}":1`)}}},"requests":[]}`,
    ),
    bodies('invalid sub-requests', (size) => `{"requests":[${counted(size / 8, () => '"none"')}]}`),
    bodies(
      'problems everywhere',
      (size) => `{"requests":[${counted(size / 40, () => '{"path":1,"method":2,"headers":3,"b":4}')}]}`,
    ),
    {
      name: 'the body of a record',
      sizes: [...bodySizes, largestBody],
      indistinct: 27,
      request: (size) =>
        request(
          'PUT',
          `/v1${records}/x`,
          { ...identity, 'Content-Type': 'application/json' },
          `{"data":{"payload":"","${'k'.repeat(size)}":1}}`,
        ),
    },

    ...spellings.map(([name, piece]) => paths(name, (size) => `/x${repeated(piece, size)}x`)),
    ...spellings.map(([name, piece]) =>
      paths(`a record id of ${name}`, (size) => `${records}/${repeated(piece, size)}`),
    ),
    ...queries.map(([name, make]) => paths(`a query of ${name}`, (size) => `${records}?${make(size)}`)),
    {
      name: 'the headers of a sub-request',
      sizes: [1024, 15_000],
      indistinct: 45,
      request: (size) => batch({ requests: [{ path: `${records}/x`, headers: { a: 'v'.repeat(size) } }] }),
    },
    ...['authorization', 'x-keyid', 'if-match', 'if-none-match', 'prefer', 'x-client-state'].map(
      (name): Kind => ({
        name: `the header ${name} of a sub-request`,
        sizes: [1024, 15_000],
        indistinct: 45,
        request: (size) =>
          batch({ requests: [{ path: `${records}/x`, headers: { [name]: `"1${' '.repeat(size)}x` } }] }),
      }),
    ),

    defaults('a path', (size) => ({ path: `${records}/${'x'.repeat(size)}` })),
    defaults('a path of slashes', (size) => ({ path: `/x${'/'.repeat(size)}x` })),
    // An invalid id in another parameter, so that the storage is not called.
    ...queries.map(([name, make]) =>
      defaults(`a query of ${name}`, (size) => {
        const invalidParameter = make(0).startsWith('exclude_id') ? 'in_ids' : 'exclude_id'
        return { path: `${records}?${make(size)}&${invalidParameter}=%C3%A9` }
      }),
    ),
    defaults('a header', (size) => ({ path: '/', headers: { a: 'v'.repeat(size) } })),
    defaults('headers', (size) => ({
      path: '/',
      headers: Object.fromEntries(
        Array.from({ length: 90 }, (_, at) => [`x-${at}`, 'v'.repeat(size / 90 - 5)]),
      ),
    })),
    defaults('an authorization', (size) => ({
      path: `${records}/x`,
      headers: { authorization: `Bearer ${'t'.repeat(size)}` },
    })),
    {
      name: 'defaults: a payload that is written',
      sizes: [64 * 1024, 512 * 1024, limits.requestBytes - defaultSize],
      indistinct: 45,
      request: (size) =>
        batch({
          defaults: { method: 'PUT', body: { data: { payload: 'x'.repeat(defaultSize - 300) } } },
          requests: Array.from({ length: size / defaultSize }, (_, at) => ({
            path: `${records}/written-${at}`,
          })),
        }),
    },
    counts('of a record', { path: `${records}/short` }),
    counts('of a long record', { path: `${records}/long` }),
    counts('of a list of 5000 collections', { path: `/buckets/${user.clientState}/collections` }),
    counts('of the root view', { path: '/' }),
    counts('of nothing', { path: '/x' }),
    counts('with a body of many members', {
      path: `${records}/short`,
      body: { data: Object.fromEntries(Array.from({ length: 98 }, (_, at) => [`member ${at}`, at])) },
    }),
  ]
}

/** 500 ordinary records, as written by a batch. */
export function ordinaryBody(): Uint8Array {
  const record = {
    method: 'PUT',
    path: `/buckets/${'a'.repeat(32)}/collections/history/records/an-id`,
    body: { data: { payload: 'x'.repeat(1000) } },
  }
  return Buffer.from(JSON.stringify({ requests: Array.from({ length: 500 }, () => record) }))
}

/** The part of a request after its head. */
export function bodyOf(request: Uint8Array): Uint8Array {
  return request.subarray(
    Buffer.from(request.buffer, request.byteOffset, request.length).indexOf('\r\n\r\n') + 4,
  )
}

/** Repeated texts that a path may consist of. */
const spellings: [name: string, piece: string][] = [
  ['slashes', '/'],
  ['segments', 'a/'],
  ['letters', 'x'],
  ['dots', '.'],
  ['dot segments', '../'],
  ['escapes', '%41'],
  ['escaped slashes', '%2f'],
  ['escaped dots', '%2e%2e/'],
  ['broken escapes', '%'],
  ['bytes that are not UTF-8', '%ff'],
  ['tildes', '~'],
  ['versions', 'v1/'],
]

const ids = (size: number) =>
  Array.from({ length: Math.max(1, Math.floor(size / 4)) }, (_, at) => at.toString(36).padStart(3, '0'))

const queries: [name: string, make: (size: number) => string][] = [
  ['one id', (size) => `in_ids=${'x'.repeat(size)}`],
  ['ids', (size) => `in_ids=${ids(size).join(',')}`],
  [
    'ids twice',
    (size) =>
      `in_ids=${ids(size / 2).join(',')}&in_id=${ids(size / 2)
        .toReversed()
        .join(',')}`,
  ],
  ['excluded ids', (size) => `exclude_id=${ids(size).join(',')}`],
  ['commas', (size) => `in_ids=${','.repeat(size)}`],
  ['spaces between ids', (size) => `in_ids=a${'+'.repeat(size)}b`],
  ['ampersands', (size) => '&'.repeat(size)],
  ['parameters', (size) => repeated('a=b&', size)],
  ['the same parameter', (size) => repeated('_sort=newest&', size)],
  ['escapes', (size) => `in_ids=${repeated('%41', size)}`],
  ['broken escapes', (size) => `in_ids=${'%'.repeat(size)}`],
  ['pluses', (size) => '+'.repeat(size)],
  ['a token', (size) => `_token=${'A'.repeat(size)}`],
  ['a moment', (size) => `_since=${'1'.repeat(size)}`],
  ['a timestamp in quotes', (size) => `_since=${'%22'.repeat(size / 3)}`],
  ['a limit', (size) => `_limit=${'1'.repeat(size)}`],
  ['a sort', (size) => `_sort=${'-'.repeat(size)}`],
  ['names', (size) => `${'n'.repeat(size)}=1`],
]

function repeated(piece: string, size: number): string {
  return piece.repeat(Math.ceil(size / piece.length))
}

function counted(count: number, make: (at: number) => string): string {
  return Array.from({ length: Math.max(1, Math.floor(count)) }, (_, at) => make(at)).join(',')
}

function put(records: string, payload: string): string {
  return `{"requests":[{"method":"PUT","path":"${records}/x","body":{"data":{"payload":${payload}}}}]}`
}

function request(method: string, target: string, headers: object, body = ''): Uint8Array {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const length = body === '' ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`
  return Buffer.from(
    `${method} ${target} HTTP/1.1\r\nHost: bridge.example\r\n${lines.join('')}${length}\r\n${body}`,
  )
}

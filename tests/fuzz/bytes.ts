import type { Chance } from './chance.ts'
import type { FuzzedRequest } from './requests.ts'

/** The request as bytes; `id` identifies it in the storage's log. */
export function toBytes(request: FuzzedRequest, id: string): Buffer {
  if (request.raw) return request.raw
  const { method, target, version, headers, body, framing } = request
  const lines = [
    `${method} ${target} ${version}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    `X-Request-Id: ${id}`,
  ]
  if (!body) return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  if (framing === 'length') {
    lines.push(`Content-Length: ${body.length}`)
    return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body])
  }
  lines.push('Transfer-Encoding: chunked')
  const middle = Math.floor(body.length / 2)
  const chunks = [body.subarray(0, middle), body.subarray(middle)]
    .filter((chunk) => chunk.length > 0)
    .flatMap((chunk) => [Buffer.from(`${chunk.length.toString(16)};x=y\r\n`), chunk, Buffer.from('\r\n')])
  return Buffer.concat([
    Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    ...chunks,
    Buffer.from('0\r\n\r\n'),
  ])
}

const pieces = [
  '\r\n', '\n', '\0', '\r\n\r\n', ' ', ':', '\\', '0\r\n\r\n', '\u00e9', '"', '{', 'GET / HTTP/1.1\r\n',
] // prettier-ignore

/** The same bytes with some replaced, duplicated, removed or inserted. */
export function mutated(bytes: Buffer, chance: Chance): Buffer {
  let changed = bytes
  for (let turn = 1 + chance.below(3); turn > 0; turn--) {
    const at = chance.below(changed.length + 1)
    const end = Math.min(changed.length, at + 1 + chance.below(chance.of([1, 4, 40])))
    const piece = chance.of([
      () => Buffer.alloc(0),
      () => Buffer.concat([changed.subarray(at, end), changed.subarray(at, end)]),
      () => Buffer.from([chance.below(256)]),
      () => Buffer.from(chance.of(pieces)),
    ])()
    changed = Buffer.concat([changed.subarray(0, at), piece, changed.subarray(end)])
  }
  return changed
}

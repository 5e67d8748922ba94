/**
 * Rewrites the timestamps of a storage's list into one JSON document, as a stream, and nothing else: no checks, no framework, no headers.
 * Whatever a list costs beyond that is ours.
 */
const source = process.env.UPSTREAM ?? ''
const token = Buffer.from('"modified":')
const exposedToken = Buffer.from('"last_modified":')
const [newline, comma, dot, zero] = [10, 44, 46, 48] as const

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(process.env.PORT),
  development: false,
  idleTimeout: 240,
  async fetch({ url, headers }) {
    const response = await fetch(source + url.slice(url.indexOf('/', 8)), {
      headers: { Authorization: headers.get('authorization') ?? '', Accept: 'application/newlines' },
      redirect: 'manual',
      decompress: false,
    })
    const reader = response.body!.getReader()
    let before = '{"data":['
    let carry = Buffer.alloc(0)
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          let piece: Buffer | null = null
          while (piece === null) {
            const { value } = await reader.read()
            if (!value) break
            const bytes = Buffer.concat([carry, value])
            const end = bytes.lastIndexOf(newline) + 1
            carry = bytes.subarray(end)
            if (end > 0) piece = rewrite(bytes.subarray(0, end), before)
          }
          controller.enqueue(piece ?? Buffer.from(before === ',' ? ']}' : '{"data":[]}'))
          before = ','
          if (piece === null) controller.close()
        },
        cancel: () => reader.cancel(),
      },
      { highWaterMark: 0 },
    )
    return new Response(body, { status: response.status, headers: { 'Content-Type': 'application/json' } })
  },
})

/** Converts whole lines, the last one with its line break, into elements of an array. */
function rewrite(lines: Buffer, before: string): Buffer {
  const out = Buffer.allocUnsafeSlow(lines.length + (lines.length >> 6) + 64)
  let length = out.write(before)
  let from = 0
  for (let at = lines.indexOf(token); at !== -1; at = lines.indexOf(token, from)) {
    length += lines.copy(out, length, from, at)
    length += exposedToken.copy(out, length)
    from = at + token.length
    for (let code = lines[from]!; code === dot || (code >= zero && code <= zero + 9); code = lines[++from]!) {
      if (code !== dot) out[length++] = code
    }
    out[length++] = zero
  }
  length += lines.copy(out, length, from, lines.length - 1)
  for (let at = out.indexOf(newline); at !== -1 && at < length; at = out.indexOf(newline, at)) out[at] = comma
  return out.subarray(0, length)
}

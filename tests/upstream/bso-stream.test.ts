import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { UpstreamError } from '../../src/domain/errors.ts'
import { BsoRewriter } from '../../src/upstream/bso-stream.ts'

function rewrite(bytes: Uint8Array, chunkSize: number, rewriter = new BsoRewriter()): string {
  const pieces: Uint8Array[] = []
  for (let start = 0; start < bytes.length; start += chunkSize) {
    pieces.push(rewriter.push(bytes.subarray(start, start + chunkSize)))
  }
  pieces.push(rewriter.end())
  return Buffer.concat(pieces).toString()
}

/** Parses and serializes each record. */
function reference(lines: string[]): unknown[] {
  return lines.map((line) => {
    const { modified, ...rest } = JSON.parse(line)
    return { ...rest, last_modified: Math.round(modified * 1000) }
  })
}

const lines = [
  '{"id":"a","modified":1234567890.12,"payload":"{\\"ciphertext\\":\\"AAAA\\"}"}',
  '{"id":"b","modified":0.01,"payload":"","sortindex":-5}',
  '{"id":"modified","modified":0.00,"payload":"\\"modified\\":12.34"}',
  '{"modified":12.34,"sortindex":100,"payload":"\\\\","id":"c"}',
  '{"payload":"x","id":"d","modified":99999999.99}',
  '{"id":"e", "modified": 1234567890.12, "payload": "spaces"}',
  '{"id":"f","modified":1.4e9,"payload":"exponent"}',
  '{"id":"g","modified":1400000000,"payload":"whole"}',
  '{"id":"h","modified":1400000000.1,"payload":"one digit"}',
  '{"id":"{i}","modified":1400000000.10,"payload":"\u00fcml\u00e4ut \u{1f600} \u2028"}',
  '{"id":"j","modified":1400000000.10,"payload":"ends in \\"modified\\\\"}',
]
const document = Buffer.from(lines.map((line) => `${line}\n`).join(''))

function encrypted(order: ('ciphertext' | 'IV' | 'hmac')[]): string {
  const parts = { ciphertext: 'a+b/c=', IV: 'Zm9v==', hmac: '0f9a' }
  const payload = JSON.stringify(JSON.stringify(Object.fromEntries(order.map((name) => [name, parts[name]]))))
  return `{"id":"a-Z_9","modified":1763700000.12,"payload":${payload},"sortindex":-20}`
}

describe('BsoRewriter', () => {
  it('converts decimal seconds to milliseconds, and leaves all other bytes unchanged', () => {
    const escaped = '{"id":"a","modified":1234567890.12,"payload":"\\u0041\\/","sortindex":-5}'

    const text = rewrite(Buffer.from(`${lines[0]}\n${escaped}\n${lines[1]}\n`), 1000)

    expect(text).toBe(
      '{"id":"a","last_modified":1234567890120,"payload":"{\\"ciphertext\\":\\"AAAA\\"}"},' +
        '{"id":"a","last_modified":1234567890120,"payload":"\\u0041\\/","sortindex":-5},' +
        '{"id":"b","last_modified":10,"payload":"","sortindex":-5}',
    )
  })

  it('agrees with parsing and serializing, wherever the chunks end', () => {
    const expected = reference(lines)

    for (let size = 1; size <= document.length; size += 1) {
      expect(JSON.parse(`[${rewrite(document, size)}]`)).toEqual(expected)
    }
  })

  it('agrees with parsing and serializing on what Firefox encrypts, between lines of other forms', () => {
    const texts = [
      encrypted(['ciphertext', 'IV', 'hmac']),
      encrypted(['IV', 'hmac', 'ciphertext']),
      lines[3]!,
      encrypted(['IV']).replace('Zm9v==', 'Z\\u0041\u00fc'),
      encrypted(['hmac', 'ciphertext']).replace('0f9a', ''),
    ]
    const bytes = Buffer.from(texts.map((line) => `${line}\n`).join(''))

    for (let size = 1; size <= bytes.length; size += 1) {
      expect(JSON.parse(`[${rewrite(bytes, size)}]`)).toEqual(reference(texts))
    }
  })

  it('agrees with parsing and serializing on lines of any length, among many', () => {
    const texts = Array.from({ length: 400 }, (_, index) => {
      const length = index % 50 === 0 ? 70_000 + index : (index * 37) % 3000
      const payload = `${'x'.repeat(length)}${index % 7 === 0 ? '\\u00fc' : ''}`
      const line = `{"id":"i${index}","modified":1763700000.12,"payload":"${payload}","sortindex":${index - 9}}`
      return index % 11 === 0 ? line.replace('"payload":', '"payload": ') : line
    })
    const bytes = Buffer.from(texts.map((line) => `${line}\n`).join(''))

    for (const size of [1000, 65_536, 100_000, 262_144, bytes.length]) {
      expect(JSON.parse(`[${rewrite(bytes, size)}]`)).toEqual(reference(texts))
    }
    expect(JSON.parse(Buffer.from(new BsoRewriter().pushWhole(bytes)).toString())).toEqual({
      data: reference(texts),
    })
  })

  it('agrees with parsing and serializing for strings and special characters at any position in a word of memory', () => {
    const unit = fc.constantFrom(
      ' ',
      '!',
      '"',
      '#',
      '\\',
      '[',
      ']',
      'x',
      'xxxx',
      '\n',
      '\u007f',
      '\u0080',
      '\u00fc',
      '\ud83d\ude00',
    )
    const payload = fc.string({ unit, maxLength: 40 })

    fc.assert(
      fc.property(fc.array(payload, { maxLength: 5 }), fc.integer({ min: 0, max: 7 }), (payloads, offset) => {
        const texts = payloads.map(
          (text, index) => `{"id":"i${index}","modified":1763700000.12,"payload":${JSON.stringify(text)}}`,
        )
        // Data around a chunk in the same memory is not part of it.
        const around = 'xx"xx\n}'
        const memory = Buffer.from(
          `${around.slice(0, offset)}${texts.map((line) => `${line}\n`).join('')}${around}`,
        )
        const piece = memory.subarray(offset, memory.length - around.length)

        expect(JSON.parse(`[${rewrite(piece, Infinity)}]`)).toEqual(reference(texts))
      }),
      { numRuns: 1000 },
    )
  })

  it('agrees with parsing and serializing on any records', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('"modified":', '"modified":1.00', '\\', '"', '","modified":2.00,"x":"', '\n', '}', '{'),
      fc.string(),
    )
    const payload = fc.array(text, { maxLength: 4 }).map((parts) => parts.join('').toWellFormed())
    const seconds = fc.oneof(
      fc.integer({ min: 0, max: 400_000_000_000 }).map((hundredths) => (hundredths / 100).toFixed(2)),
      fc.integer({ min: 0, max: 4_000_000_000 }).map(String),
      fc.constantFrom('0', '0.00', '0.10', '1e9', '1.5E3', '12.5', '100.00'),
    )
    const record = fc.record({
      id: payload.filter((id) => id !== ''),
      modified: seconds,
      payload,
      sortindex: fc.option(fc.integer({ min: -999_999_999, max: 999_999_999 })),
      order: fc.shuffledSubarray(['id', 'modified', 'payload', 'sortindex'] as const, { minLength: 4 }),
      space: fc.constantFrom('', '', '', ' '),
    })
    const toLine = (it: typeof record extends fc.Arbitrary<infer Value> ? Value : never) =>
      `{${it.order
        .filter((name) => name !== 'sortindex' || it.sortindex !== null)
        .map((name) => `"${name}":${it.space}${name === 'modified' ? it.modified : JSON.stringify(it[name])}`)
        .join(',')}}`

    fc.assert(
      fc.property(fc.array(record, { maxLength: 6 }), fc.integer({ min: 1, max: 300 }), (records, size) => {
        const printed = records.map(toLine)
        const bytes = Buffer.from(printed.map((line) => `${line}\n`).join(''))

        expect(JSON.parse(`[${rewrite(bytes, size)}]`)).toEqual(reference(printed))
      }),
      { numRuns: 300 },
    )
  })

  it.each([
    ['a stray quote', '{"id":"a","modified":1.00,"payload":"x"y"}'],
    ['an open string', '{"id":"a","modified":1.00,"payload":"x}'],
    ['a brace too many', '{"id":"a","modified":1.00,"payload":"x"}}'],
    ['a comma too many', '{"id":"a","modified":1.00,"payload":"x",}'],
    ['two records', '{"id":"a","modified":1.00,"payload":"x"}{"id":"b","payload":"x"}'],
    ['an invalid escape', '{"id":"a","modified":1.00,"payload":"\\x"}'],
    ['half an escape', '{"id":"a","modified":1.00,"payload":"\\u00g0"}'],
    ['a tab', '{"id":"a","modified":1.00,"payload":"\t"}'],
    ['a leading zero', '{"id":"a","modified":1.00,"payload":"x","sortindex":01}'],
    ['text where a number belongs', '{"id":"a","modified":1.00,"payload":"x","sortindex":high}'],
    ['an id that is no text', '{"id":7,"modified":1.00,"payload":"x"}'],
    ['no id', '{"modified":1.00,"payload":"x"}'],
    ['a payload that is no text', '{"id":"a","modified":1.00,"payload":{"x":1}}'],
    ['an escaped end', '{"id":"a","modified":1.00,"payload":"x\\"}'],
    ['nested braces', '{"id":"a",{"modified":1.00,"payload":"x"}}'],
    ...[
      '{"id":"a"}',
      '{"id":"a","x\\"modified":1.00,"payload":""}',
      '{"id":"a","modified":"1.00","payload":""}',
      '{"id":"a","modified":-1.00,"payload":""}',
      '{"id":"a","modified":1.00,"payload":""}x',
      '{"id":"a","modified":01.00,"modified":1.00',
      ...'null [] "text" words'.split(' '),
    ].map((line) => ['no record', line] as const),
  ])('rejects a broken line: %s', (_, line) => {
    const bytes = Buffer.from(`${lines[0]}\n${line}\n${lines[1]}\n`)

    for (const size of [1, 7, 30, 1000]) expect(() => rewrite(bytes, size)).toThrow(UpstreamError)
    expect(() => new BsoRewriter().pushWhole(bytes)).toThrow(UpstreamError)
  })

  it('rejects invalid UTF-8', () => {
    const bytes = Buffer.from(`${lines[0]}\n${lines[9]}\n`)
    bytes[bytes.indexOf(0xc3)] = 0xff

    expect(() => rewrite(bytes, 1000)).toThrow(UpstreamError)
    expect(() => rewrite(bytes.subarray(0, -1), 1000)).toThrow(UpstreamError)
  })

  it.each([
    ['of any payload', `${lines[0]!.replace('}"}', ',\\"\\u0041\\\\\\n}","sortindex":5}')}\n`],
    ['as the desktop encrypts', `${encrypted(['ciphertext', 'IV', 'hmac'])}\n`],
    ['as phones encrypt', `${encrypted(['IV', 'hmac', 'ciphertext']).replace(',"sortindex":-20', '')}\n`],
  ])(
    'rejects the list, or clients can, or it has every record, if any byte of a line is changed: %s',
    (_, text) => {
      const line = Buffer.from(text)
      const fields = new Set(['id', 'last_modified', 'payload', 'sortindex'])
      const seen = { whole: 0, refused: 0 }
      for (let at = 0; at < line.length - 1; at += 1) {
        for (const byte of [0, 9, 10, 31, 32, 34, 44, 48, 58, 65, 91, 92, 93, 117, 123, 125, 127, 195, 255]) {
          const changed = Buffer.concat([line, line])
          changed[at] = byte
          const rewriter = new BsoRewriter()
          let records: Record<string, unknown>[]
          try {
            records = JSON.parse(`[${rewrite(changed, 1000, rewriter)}]`) as typeof records
          } catch (error) {
            // Not every payload is read to its end, so a stray quote in it is left to the client's parser.
            expect(error).toBeInstanceOf(byte < 32 && byte !== 10 ? UpstreamError : Error)
            seen.refused += 1
            continue
          }
          expect(records.length).toBe(rewriter.recordCount)
          for (const { id, payload, last_modified, ...rest } of records) {
            expect([typeof id, typeof payload, typeof last_modified]).toEqual(['string', 'string', 'number'])
            expect(Object.keys(rest).filter((name) => !fields.has(name))).toEqual([])
          }
          seen.whole += 1
        }
      }

      expect(Math.min(seen.whole, seen.refused)).toBeGreaterThan(100)
    },
  )

  const usual = '{"id":"a","modified":1763700000.12,"payload":"x"}'
  const record = '{"id":"a","last_modified":1763700000120,"payload":"x"}'

  it.each([
    ['a text', ',"collection":"history"'],
    ['a number', ',"ttl":5'],
    ['a number before the last field', ',"ttl":5,"sortindex":7'],
    ['a text behind the last field', ',"sortindex":7,"collection":"history"'],
    ['a text with a brace and a quote', ',"x":"\\"}"'],
    ['a space before its name', ', "x":"y"'],
    ['a space before its comma', ' ,"x":"y"'],
    ['spaces around its comma', '  ,  "x" : "y"'],
    ['a space before its name, and the last field', ', "x":"y","sortindex":7'],
  ])('parses a line with one more field behind the payload: %s', (_, more) => {
    const sorted = more.includes('sortindex') ? record.replace('}', ',"sortindex":7}') : record
    const lines = `${usual}\n${usual.replace(/}$/, `${more}}`)}\n${usual}\n`

    expect(rewrite(Buffer.from(lines), 1000)).toBe([record, sorted, record].join(','))
  })

  it.each([0, 8, 9, 0x1f])(
    'rejects the control character %i anywhere in the strings of a line',
    (control) => {
      for (let length = 0; length < 40; length += 1) {
        for (const field of ['"payload":"', '{"id":"']) {
          for (const rest of ['', 'ü']) {
            const text = 'x'.repeat(length) + String.fromCharCode(control) + 'x'.repeat(40 - length) + rest
            const line = `${usual.replace(field, `${field}${text}`)}\n`

            expect(() => rewrite(Buffer.from(line), 1000)).toThrow(UpstreamError)
          }
        }
      }
    },
  )

  it.each([0x1f, 0xff])('rejects the byte %i anywhere in a line that is longer than a block', (byte) => {
    const length = 66_000
    const line = Buffer.from(`${usual.replace('"x"', `"${'x'.repeat(length)}"`)}\n`)
    const first = line.indexOf('xxx')
    const blockBytes = 65_536
    const around = [
      blockBytes - 1,
      blockBytes,
      blockBytes + 1,
      blockBytes + 15,
      blockBytes + 16,
      blockBytes + 64,
    ]

    for (const at of [first, ...around, first + length - 1]) {
      line[at] = byte
      expect(() => rewrite(line, Infinity)).toThrow(UpstreamError)
      line[at] = 0x78
    }
    expect(rewrite(line, Infinity)).toContain('"last_modified"')
  })

  it.each([
    ['a space', ' '],
    ['an exclamation mark', '!'],
    ['a number sign', '#'],
    ['brackets', '[]'],
    ['a tilde', '~'],
    ['a delete character', '\u007f'],
    ['the first non-ASCII characters', '\u0080\u009f\u00a0'],
    ['a comma before an escaped quote', ',\\"'],
    ['an escaped backslash at its end', '\\\\'],
    ['an escaped quote at its end', '\\"'],
    ['what looks like the timestamp', ',\\"modified\\":1.00'],
  ])('keeps %s in a payload of any length', (_, text) => {
    for (let length = 0; length < 40; length += 1) {
      const line = usual.replace('"x"', `"${'x'.repeat(length)}${text}"`)

      expect(JSON.parse(`[${rewrite(Buffer.from(`${line}\n`), 1000)}]`)).toEqual(reference([line]))
    }
  })

  it.each([
    ['1000000000.00', 1_000_000_000_000],
    ['9999999999.99', 9_999_999_999_990],
    ['999999999.99', 999_999_999_990],
    ['10000000000.00', 10_000_000_000_000],
    ['99999999999', 99_999_999_999_000],
  ])('reads %s seconds', (seconds, milliseconds) => {
    const line = usual.replace('1763700000.12', seconds)

    expect(rewrite(Buffer.from(`${line}\n`), 1000)).toBe(record.replace('1763700000120', `${milliseconds}`))
  })

  it.each(['0', '9', '-999999999', '999999999', '999999999999', '-999999999999', '9007199254740991'])(
    'reads the sortindex %s',
    (sortindex) => {
      const line = usual.replace(/}$/, `,"sortindex":${sortindex}}`)

      expect(JSON.parse(`[${rewrite(Buffer.from(`${line}\n`), 1000)}]`)).toEqual(reference([line]))
    },
  )

  it.each([
    ['an escaped end of the payload', '"x"', '"x\\"'],
    ['an escaped end of the id', '"a"', '"a\\"'],
    ['a leading zero', '1763700000.12', '0763700000.12'],
    ['a letter among the digits', '1763700000.12', '176370000x.12'],
    ['a colon among the digits', '1763700000.12', '1763700000.:2'],
    ['a slash among the digits', '1763700000.12', '/763700000.12'],
    ['another dot', '1763700000.12', '1763700000,12'],
    ['text behind it', '}', '} x'],
    ['another bracket', '}', ']'],
    ['no quote at the end', 'x"}', 'x}'],
  ])('rejects a line of the usual form with %s', (_, part, changed) => {
    const line = `${usual.replace(part, changed)}\n`

    expect(() => rewrite(Buffer.from(line), 1000)).toThrow(UpstreamError)
    expect(() => rewrite(Buffer.from(`${usual}\n${line}${usual}\n`), 1000)).toThrow(UpstreamError)
  })

  it.each(['00', '-', '01', '1.5', '9007199254740992', '1e400', ''])(
    'rejects the sortindex "%s"',
    (sortindex) => {
      const line = usual.replace(/}$/, `,"sortindex":${sortindex}}`)

      expect(() => rewrite(Buffer.from(`${line}\n`), 1000)).toThrow(UpstreamError)
    },
  )

  const second = '{"id":"b","last_modified":10,"payload":"","sortindex":-5}'
  it.each([
    ['nothing of an empty list', '', ''],
    ['nothing of empty lines', `\n${lines[1]}\n\n`, second],
    ['a record of a last line without a line break, if it is whole', lines[1]!, second],
    [
      'one timestamp, however often a line tells it',
      '{"id":"a","modified":1.00,"payload":"","modified":2.00}\n',
      '{"id":"a","last_modified":2000,"payload":""}',
    ],
  ])('returns %s', (_, given, made) => {
    for (const size of [7, 1000]) expect(rewrite(Buffer.from(given), size)).toBe(made)
  })

  it('never treats a truncated list as complete', () => {
    const ends = new Set<number>()
    for (let at = 0; at <= document.length; at += 1) {
      if (document[at] === 10 || document[at - 1] === 10 || at === 0) ends.add(at)
    }

    for (let length = 0; length < document.length; length += 1) {
      if (ends.has(length)) continue
      expect(() => rewrite(document.subarray(0, length), 64)).toThrow(UpstreamError)
    }
  })

  it('rejects a line that does not end', () => {
    const rewriter = new BsoRewriter()
    const piece = Buffer.alloc(1024 * 1024, 'x')

    const push = () => {
      for (let count = 0; count < 20; count += 1) rewriter.push(piece)
    }

    expect(push).toThrow('a line is longer than 16 MiB')
  })

  it('does not write into chunks that it has returned', () => {
    const rewriter = new BsoRewriter()
    const pieces: Uint8Array[] = []
    const copies: string[] = []

    for (let start = 0; start < document.length; start += 100) {
      const piece = rewriter.push(document.subarray(start, start + 100))
      pieces.push(piece)
      copies.push(Buffer.from(piece).toString())
    }

    expect(pieces.map((piece) => Buffer.from(piece).toString())).toEqual(copies)
  })

  it('parses every line on processors without vector instructions', async () => {
    const module = join(import.meta.dir, '../../src/upstream/bso-stream.ts')
    const script = `
      const { BsoRewriter } = await import(${JSON.stringify(module)})
      process.stdout.write(new BsoRewriter().pushWhole(await Bun.stdin.bytes()))`
    // A process, because the runtime reads this setting when it starts.
    const child = Bun.spawn([process.execPath, '-e', script], {
      env: { ...process.env, BUN_JSC_useWasmSIMD: '0' },
      stdin: Buffer.from(`${usual}\n${usual}\n`),
      stdout: 'pipe',
    })

    expect(await new Response(child.stdout).json()).toEqual({ data: reference([usual, usual]) })
  })
})

import { describe, expect, it } from 'bun:test'
import { parseRecords } from '../../src/client/record-list.ts'

const records = Array.from({ length: 3000 }, (_, index) => ({
  id: `record${index}`,
  last_modified: 1_500_000_000_000 + index,
  // The separator of two records inside a string, and multi-byte characters.
  payload: JSON.stringify({
    text: '},{"id":"not a record"',
    title: `«${index}» \u{1f511}`,
    more: 'x'.repeat(300),
  }),
}))

/** The records of a body that arrives in chunks of that size. */
async function parse(text: string, pieceBytes: number): Promise<{ id: string }[][]> {
  const bytes = new TextEncoder().encode(text)
  let at = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.subarray(at, at + pieceBytes))
      at += pieceBytes
    },
  })
  return Array.fromAsync(parseRecords(body, () => new Error('broken off')))
}

describe('parseRecords', () => {
  it.each([1000, 4097, 65_536, 10_000_000])(
    'passes records on as they arrive, in chunks of %d bytes',
    async (pieceBytes) => {
      const parts = await parse(JSON.stringify({ data: records }), pieceBytes)

      expect(parts.flat()).toEqual(records)
      if (pieceBytes < 100_000) expect(parts.length).toBeGreaterThan(1)
    },
  )

  it('accepts a list without records, with one, and with one longer than the parsed portion', async () => {
    const long = { id: 'long', last_modified: 1, payload: 'x'.repeat(3_000_000) }
    const lists = [[], records.slice(0, 1), [long], [long, ...records.slice(0, 2)]]

    for (const data of lists) expect((await parse(JSON.stringify({ data }), 10_000)).flat()).toEqual(data)
  })

  it('does not require the id to come first', async () => {
    const data = [
      { last_modified: 1, id: 'a' },
      { last_modified: 2, id: 'b' },
    ]

    expect((await parse(JSON.stringify({ data }), 5)).flat()).toEqual(data as object[] as { id: string }[])
  })

  it.each([10, 1_000_000, -1])('rejects if the list ends after %d characters', async (length) => {
    await expect(parse(JSON.stringify({ data: records }).slice(0, length), 10_000)).rejects.toThrow(
      'broken off',
    )
  })

  it('rejects if the body fails', async () => {
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error('reset'))
      },
    })

    await expect(Array.fromAsync(parseRecords(body, () => new Error('broken off')))).rejects.toThrow(
      'broken off',
    )
  })
})

import { readRecords, type StoredRecord } from './answers.ts'

/** The text between two records. It can't occur inside a string, where quotes are escaped. */
const between = '},{"id":"'
const opening = '{"data":['
/** Minimum number of characters to parse at once. */
const minCharacters = 500_000

/** Yields the records of a list in parts, as they arrive. Rejects with `brokenOff` if the body fails or ends early. */
export async function* parseRecords(
  body: ReadableStream<Uint8Array>,
  brokenOff: (cause?: unknown) => Error,
  signal?: AbortSignal,
): AsyncGenerator<StoredRecord[]> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let isFirst = true
  // Searching a long record again for each chunk would take quadratic time.
  let enough = minCharacters
  try {
    for (;;) {
      const { value, done } = await reader.read().catch((error: unknown) => {
        signal?.throwIfAborted()
        throw brokenOff(error)
      })
      text += decoder.decode(value, { stream: !done })
      if (done) break
      if (text.length < enough) continue
      const end = text.lastIndexOf(between) + 1
      if (end === 0) {
        enough = 2 * text.length
        continue
      }
      yield parse(`${isFirst ? '' : opening}${text.slice(0, end)}]}`)
      text = text.slice(end + 1)
      isFirst = false
      enough = minCharacters
    }
    yield parse(isFirst ? text : opening + text)
  } finally {
    await reader.cancel().catch(() => {})
  }

  function parse(list: string): StoredRecord[] {
    let body: unknown
    try {
      body = JSON.parse(list)
    } catch (error) {
      throw brokenOff(error)
    }
    return readRecords(body)
  }
}

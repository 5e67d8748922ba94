/** A record as the bridge sends it. */
export interface StoredRecord {
  id: string
  /** In ms since 1970. */
  last_modified: number
  payload?: string
  sortindex?: number
}

/** Between two records of a list. In a string there would be a backslash before the first quote. */
const between = '},{"id":"'
const opening = '{"data":['
/** Characters that are parsed at once, at least. */
const leastCharacters = 500_000

/**
 * The records of a list, some at a time, as they come. Rejects with `brokenOff` when the body ends before the list does, or fails.
 */
export async function* parseRecords(
  body: ReadableStream<Uint8Array>,
  brokenOff: (cause?: unknown) => Error,
): AsyncGenerator<StoredRecord[]> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let isFirst = true
  // Looking for the end of a long record with every piece would take the square of its length.
  let enough = leastCharacters
  try {
    for (;;) {
      const { value, done } = await reader.read().catch((error: unknown) => {
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
      enough = leastCharacters
    }
    yield parse(isFirst ? text : opening + text)
  } finally {
    await reader.cancel().catch(() => {})
  }

  function parse(list: string): StoredRecord[] {
    try {
      return JSON.parse(list).data
    } catch (error) {
      throw brokenOff(error)
    }
  }
}

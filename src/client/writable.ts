/**
 * The collections, of these, that a bridge allows to write. It says so for any record, and without credentials. Pages of other origins can't
 * read that. Rejects like `fetch`.
 */
export async function writableAt(
  bridgeUrl: string,
  bucket: string,
  collections: readonly string[],
  send: (url: string, init: RequestInit) => Promise<Response> = (url, init) => fetch(url, init),
): Promise<Set<string>> {
  const root = bridgeRoot(bridgeUrl)
  const allowed = await Promise.all(
    collections.map(async (name) => {
      const url = `${root}/v1/buckets/${bucket}/collections/${encodeURIComponent(name)}/records/any`
      const answer = await send(url, { method: 'OPTIONS', credentials: 'omit', redirect: 'manual' })
      await answer.body?.cancel()
      return /\bPUT\b/.test(answer.headers.get('Allow') ?? '')
    }),
  )
  return new Set(collections.filter((_, index) => allowed[index]))
}

/** The address of a bridge without the protocol version, which people may write or leave out. */
export function bridgeRoot(bridgeUrl: string): string {
  return bridgeUrl.replace(/\/?(?:v1)?\/?$/, '')
}

import { ClientError } from './errors.ts'
import { rest } from './pauses.ts'
import type { SyncRecord } from './collection.ts'
import type { SyncClient } from './sync-client.ts'

/** What is watched, and how often. */
export interface WatchOptions {
  /** In ms since 1970. @default now */
  since?: number
  /** @default all but `crypto`, `meta`, and those of `except` */
  collections?: string[]
  except?: string[]
  /** The bridge may ask for longer pauses, which are kept. @default 60 */
  everySeconds?: number
  signal?: AbortSignal
  /** When a round has failed, which the next one makes good; it may throw to end the watch. */
  onError?(error: ClientError): void
}

/**
 * The records that change, decrypted, oldest first within a collection. Asks for the list of collections, and lists only those that have
 * changed. Records that are deleted without a trace are not told; Firefox leaves one. Ends when the signal fires; rejects with
 * `ClientError` when the first round fails, or the account is refused.
 */
export async function* changes(client: SyncClient, options: WatchOptions = {}): AsyncGenerator<SyncRecord> {
  const { everySeconds = 60, signal, onError } = options
  /** When each collection had changed last, as far as it was told. */
  let known: Map<string, number> | null = null
  for (;;) {
    try {
      const current = await client.collections(signal)
      // A first round without `since` only learns what there is.
      known ??= new Map(
        current.map(({ name, lastModified }) => [
          name,
          Math.min(options.since ?? lastModified, lastModified),
        ]),
      )
      // A client that was reset has made new keys: they are fetched before the records that they open.
      const keys = current.find(({ name }) => name === 'crypto')
      if (keys && keys.lastModified !== known.get('crypto')) client.forgetKeys()
      for (const { name, lastModified } of current) {
        const since = known.get(name) ?? 0
        if (lastModified === since) continue
        known.set(name, lastModified)
        if (!isWatched(name, options)) continue
        // A collection that is older than it was has been wiped and filled again.
        const read = { since: lastModified < since ? 0 : since, signal }
        const found: SyncRecord[] = []
        try {
          for await (const page of client.collection(name).pages(read)) {
            found.push(...page.records)
            known.set(name, Math.max(lastModified, page.lastModified))
          }
        } catch (error) {
          known.set(name, since)
          throw error
        }
        yield* found.toSorted((left, right) => left.stored.last_modified - right.stored.last_modified)
      }
    } catch (error) {
      if (signal?.aborted) return
      const isLasting = !(error instanceof ClientError) || error.field !== null
      if (isLasting || known === null || !onError) throw error
      onError(error)
    }
    try {
      await rest(client.requests, everySeconds, signal)
    } catch {
      return
    }
  }
}

function isWatched(name: string, { collections, except = [] }: WatchOptions): boolean {
  return collections ? collections.includes(name) : !['crypto', 'meta', ...except].includes(name)
}

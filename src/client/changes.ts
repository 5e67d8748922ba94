import { ClientError } from './errors.ts'
import { rest } from './pauses.ts'
import type { CollectionInfo } from './answers.ts'
import type { Collection, SyncRecord } from './collection.ts'
import type { Requests } from './requests.ts'

/** The part of a client that is needed to watch its account. */
interface Watched {
  readonly requests: Requests
  collections(signal?: AbortSignal): Promise<CollectionInfo[]>
  collection(name: string): Collection
  forgetKeys(): void
}

/** What to watch, and how often. */
export interface WatchOptions {
  /** In ms since 1970. @default now */
  since?: number
  /** @default all except `crypto`, `meta` and those in `exclude` */
  collections?: string[]
  exclude?: string[]
  /** The pause between rounds; longer if the bridge asks for it with `Backoff`. @default 60 */
  everySeconds?: number
  signal?: AbortSignal
  /** Called when a round fails; the next one catches up. Throw to stop watching. */
  onError?(error: ClientError): void
}

/**
 * Yields changed records, decrypted, oldest first within a collection. Polls the list of collections, and reads only those that have
 * changed. Doesn't see records deleted without a tombstone; Firefox always writes one. Ends when the signal is aborted. Rejects with
 * `ClientError` if the first round fails, or if the credentials are rejected.
 */
export async function* changes(client: Watched, options: WatchOptions = {}): AsyncGenerator<SyncRecord> {
  const { everySeconds = 60, signal, onError } = options
  /** The last change of each collection that was yielded. */
  let known: Map<string, number> | null = null
  for (;;) {
    try {
      const current = await client.collections(signal)
      // Without `since`, the first round only records the current state.
      known ??= new Map(
        current.map(({ name, lastModified }) => [
          name,
          Math.min(options.since ?? lastModified, lastModified),
        ]),
      )
      // A reset client has created new keys, which are needed for its records.
      const keys = current.find(({ name }) => name === 'crypto')
      if (keys && keys.lastModified !== known.get('crypto')) client.forgetKeys()
      for (const { name, lastModified } of current) {
        const since = known.get(name) ?? 0
        if (lastModified === since) continue
        known.set(name, lastModified)
        if (!isWatched(name, options)) continue
        // A collection with an older timestamp was wiped and filled again.
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
        for (const record of found.toSorted(byTime)) {
          if (signal?.aborted) return
          yield record
        }
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

function byTime({ stored: left }: SyncRecord, { stored: right }: SyncRecord): number {
  return left.last_modified - right.last_modified
}

function isWatched(name: string, { collections, exclude = [] }: WatchOptions): boolean {
  return collections ? collections.includes(name) : !['crypto', 'meta', ...exclude].includes(name)
}

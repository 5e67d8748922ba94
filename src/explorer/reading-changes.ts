import type { ReadOptions, SyncRecord } from '../client/collection.ts'
import type { EditClient } from '../client/edit/save.ts'

/**
 * The client, which takes the records on display for what is stored, and reads only what has changed since. Every write depends on the
 * versions of its records, so what this misses is refused. After the first write it reads everything.
 */
export function readingChanges(client: EditClient, shown: readonly SyncRecord[]): EditClient {
  let hasWritten = false
  const newestMs = shown.reduce((newest, { stored }) => Math.max(newest, stored.last_modified), 0)

  async function* recordsOf(name: string, options: ReadOptions): AsyncGenerator<SyncRecord> {
    const asGiven = options.ids !== undefined || hasWritten || newestMs === 0
    if (!asGiven) yield* shown
    yield* client.collection(name).records(asGiven ? options : { ...options, since: newestMs })
  }

  return {
    account: client.account,
    keysOf: (name) => client.keysOf(name),
    encrypt: (name, record) => client.encrypt(name, record),
    info: () => client.info(),
    collection: (name) => ({
      records: (options = {}) => recordsOf(name, options),
      storedPages: (options) => client.collection(name).storedPages(options),
    }),
    async strictTransaction(requests) {
      hasWritten = true
      return client.strictTransaction(requests)
    },
  }
}

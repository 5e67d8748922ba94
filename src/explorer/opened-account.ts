import type { Account } from '../client/account.ts'
import type { SyncRecord } from '../client/collection.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import { save, undo, type SaveResult } from '../client/edit/save.ts'
import type { Saved } from '../client/edit/saved.ts'
import { ClientError } from '../client/errors.ts'
import { connect } from '../client/sync-client.ts'
import { writableAt } from '../client/writable.ts'
import { newLink, ownBridge, ownWritable } from './own-page.ts'
import { readingChanges } from './reading-changes.ts'

/** The values that the connect form asks for; its fields have these names. */
export type Credentials = Pick<Account, 'token' | 'keyId' | 'bucket' | 'syncKey'>

/** An account whose sync key was verified. */
export interface OpenedAccount {
  /** The names of the account's collections, except `crypto`. */
  collections: string[]
  /**
   * Reads a collection, and passes its records to `onRecords` as they arrive. Records may come twice if the collection changes. Rejects
   * with `ClientError`.
   */
  read(collection: string, signal: AbortSignal, onRecords: (records: SyncRecord[]) => void): Promise<void>
  /** The collections that the bridge allows to write. */
  writable: ReadonlySet<string>
  /** Saves edits that were made for these records. Rejects with `ClientError`. */
  edit(
    collection: string,
    edits: readonly (Edit | RecordEdit)[],
    shown: readonly SyncRecord[],
  ): Promise<SaveResult>
  /** Takes saved edits back; `shown` are the records on display. Rejects with `ClientError`. */
  undo(saved: Saved, shown: readonly SyncRecord[]): Promise<SaveResult>
}

/** Connects to the bridge that serves this page, or that the command which serves it names. Rejects with `ClientError`. */
export async function openAccount(credentials: Credentials): Promise<OpenedAccount> {
  if (!isSecureContext) throw new ClientError(insecure)
  const bridgeUrl = ownBridge ?? new URL('.', location.href).href
  // No silent waiting: the page shows the error and a button to retry.
  const client = await connect({ ...credentials, bridgeUrl }, { maxPauses: 0 }).catch(advise)
  const listed = await client.collections().catch(advise)
  const collections = listed.map(({ name }) => name).filter((name) => name !== 'crypto')
  const writable =
    ownWritable ??
    (await writableAt(bridgeUrl, client.account.bucket, collections).catch(() => new Set<string>()))
  return {
    collections,
    writable,
    async edit(collection, edits, shown) {
      await nextFrame()
      return save(readingChanges(client, shown), edits, { collection, shown }).catch(advise)
    },
    async undo(saved, shown) {
      await nextFrame()
      return undo(readingChanges(client, shown), saved).catch(advise)
    },
    async read(collection, signal, onRecords) {
      try {
        for await (const { records } of client.collection(collection).pages({ pageSize: 1000, signal }))
          onRecords(records)
      } catch (error) {
        advise(error)
      }
    },
  }
}

/** Rethrows the error; for a rejected token, with advice on how to get another. */
function advise(error: unknown): never {
  if (!(error instanceof ClientError) || error.status !== 401 || error.field !== 'token') throw error
  const { message, field, status, errno } = error
  throw new ClientError(`${message.replace(/\.?$/, '.')} ${ownBridge === null ? newToken : newLink}`, {
    field,
    status,
    errno,
  })
}

const insecure =
  'Browsers decrypt only on pages from https, 127.0.0.1 or localhost: open this page at such an address.'
const newToken =
  'A token expires within hours, and belongs to one account, like the key id. Get a new one the way you got ' +
  'this, and paste it here.'

/** Resolves after the next frame, so that a key is answered before a long computation. Pages in the background have no frames. */
function nextFrame(): Promise<unknown> {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve))
    setTimeout(resolve, 100)
  })
}

import type { Account } from '../client/account.ts'
import type { SyncRecord } from '../client/collection.ts'
import { ClientError } from '../client/errors.ts'
import { connect } from '../client/sync-client.ts'

/** The values that the page asks for; fields of the form have their names. */
export type Credentials = Pick<Account, 'token' | 'keyId' | 'bucket' | 'syncKey'>

/** An account whose key opens its data. */
export interface OpenedAccount {
  /** The names of the account's collections, without that of the keys. */
  collections: string[]
  /**
   * Calls back with the records of a collection as they come; one that changes meanwhile may come again. Rejects with
   * `ClientError`.
   */
  read(collection: string, signal: AbortSignal, onRecords: (records: SyncRecord[]) => void): Promise<void>
}

/** Opens an account at the bridge that this page comes from. Rejects with `ClientError`. */
export async function openAccount(credentials: Credentials): Promise<OpenedAccount> {
  if (!isSecureContext) throw new ClientError(insecure)
  const bridgeUrl = new URL('.', location.href).href
  // Whoever waits sees why, and has a button to try again.
  const client = await connect({ ...credentials, bridgeUrl }, { maxPauses: 0 }).catch(advise)
  const listed = await client.collections().catch(advise)
  return {
    collections: listed.map(({ name }) => name).filter((name) => name !== 'crypto'),
    async read(collection, signal, onRecords) {
      try {
        for await (const { records } of client.collection(collection).pages({ signal })) onRecords(records)
      } catch (error) {
        advise(error)
      }
    },
  }
}

/** Throws the error, with what to do about a token that is refused. */
function advise(error: unknown): never {
  if (!(error instanceof ClientError) || error.status !== 401 || error.field !== 'token') throw error
  const { message, field, status, errno } = error
  throw new ClientError(`${message.replace(/\.?$/, '.')} ${newToken}`, { field, status, errno })
}

const insecure =
  'Browsers decrypt only in pages that come over https, or from 127.0.0.1 or localhost: open this page by such an address.'
const newToken =
  'A token ends after some hours at most, and belongs to one account, as the key id does. Get a new one the way you got ' +
  'this, and paste it here.'

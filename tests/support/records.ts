import {
  collectionKeys,
  decryptRecords,
  encryptRecord,
  keyPairFromHex,
  type ClearRecord,
  type KeyPair,
} from '../../src/client/crypto.ts'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** A payload that no known key decrypts; real accounts contain some. */
export const foreign = JSON.stringify({
  ciphertext: 'AAAA',
  IV: 'AAAAAAAAAAAAAAAAAAAAAA==',
  hmac: '00'.repeat(32),
})

/** The account values that the examples need, under the names they use. */
export function accountOf(user: SandboxUser) {
  return {
    BUCKET: user.clientState,
    KEY_ID: user.keyId,
    BEARER_TOKEN: user.bearerToken(),
    SYNC_KEY: user.syncKey.toString('hex'),
  }
}

/** The same as the text of a file. */
export function linesOf(values: Record<string, string>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

export async function keyPairOf(sandbox: Sandbox, user: SandboxUser, collection: string): Promise<KeyPair> {
  const [keys] = sandbox.records(user, 'crypto')
  return (await collectionKeys(keyPairFromHex(user.syncKey.toString('hex')), keys!))(collection)
}

/** A record as this user's Firefox would upload it. */
export async function encrypted(sandbox: Sandbox, user: SandboxUser, collection: string, clear: ClearRecord) {
  return { id: clear.id, payload: await encryptRecord(await keyPairOf(sandbox, user, collection), clear) }
}

/** The records of a collection that its key opens, as clear text. */
export async function readableOf(
  sandbox: Sandbox,
  user: SandboxUser,
  collection: string,
): Promise<ClearRecord[]> {
  return (await openedOf(sandbox, user, collection)).readable
}

/** All records of a collection by id, as clear text; null for one that its key does not open. */
export async function clearRecordsOf(
  sandbox: Sandbox,
  user: SandboxUser,
  collection: string,
): Promise<Map<string, ClearRecord | null>> {
  const { readable, unreadable } = await openedOf(sandbox, user, collection)
  return new Map<string, ClearRecord | null>([
    ...readable.map((record) => [record.id, record] as const),
    ...unreadable.map(({ id }) => [id, null] as const),
  ])
}

async function openedOf(sandbox: Sandbox, user: SandboxUser, collection: string) {
  const keyPair = await keyPairOf(sandbox, user, collection)
  return decryptRecords(keyPair, sandbox.records(user, collection))
}

import {
  decryptRecord,
  UnreadableRecord,
  type ClearRecord,
  type EncryptedRecord,
  type KeyPair,
} from './crypto.ts'

/**
 * Decrypts many records. Real accounts contain records that the key can't decrypt, which Firefox skips; they are returned separately, each
 * with the reason.
 */
export async function decryptRecords(
  keyPair: KeyPair | Promise<KeyPair>,
  records: EncryptedRecord[],
): Promise<{ readable: ClearRecord[]; unreadable: { id: string; reason: string }[] }> {
  const readable: ClearRecord[] = []
  const unreadable: { id: string; reason: string }[] = []
  for (const record of records) {
    try {
      readable.push(await decryptRecord(keyPair, record))
    } catch (error) {
      const reason = error instanceof UnreadableRecord ? error.reason : String(error)
      unreadable.push({ id: record.id, reason })
    }
  }
  return { readable, unreadable }
}

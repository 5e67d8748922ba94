import { isWriteConflict, rejectedRecord, ServiceError } from '../domain/errors.ts'
import type { BulkStorage, RecordWrite } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/record.ts'
import type { Budget } from './budget.ts'

const maxRetries = 5

/** The collection to write to, and its timestamp. */
interface Target {
  storage: BulkStorage
  collection: string
  since: Timestamp
  budget: Budget
}

/**
 * Finds the records that make the storage reject an upload with 400 or 413, by staging halves, which leaves no trace. Empty if the storage
 * rejects everything or can't stage.
 */
export async function findRefused(
  target: Target,
  uploads: RecordWrite[][],
): Promise<Map<string, ServiceError>> {
  const refused = new Map<string, ServiceError>()
  const { batch } = await target.storage.limits()
  if (!batch || (await rejectionOf(target, [])) !== null) return refused
  const search = async (records: RecordWrite[]): Promise<void> => {
    const reason = await rejectionOf(target, records)
    if (reason === null) return
    if (records.length === 1) return void refused.set(records[0]!.id, reason)
    const half = records.length >> 1
    await search(records.slice(0, half))
    await search(records.slice(half))
  }
  for (const records of uploads) await search(records)
  return refused
}

/** Whether a refusal is about the records of an upload. */
export function blamesRecords({ status }: ServiceError): boolean {
  return status === 400 || status === 413
}

/** Why the storage does not accept these records in a staged batch; null if it does. */
async function rejectionOf(
  { storage, collection, since, budget }: Target,
  records: RecordWrite[],
): Promise<ServiceError | null> {
  for (let failures = 1; ; failures += 1) {
    budget.requireTime()
    try {
      await storage.stage(collection, records, since, null)
      return null
    } catch (error) {
      if (error instanceof ServiceError && blamesRecords(error)) return rejectedRecord(error.status)
      // MariaDB can only create a few batch ids per user within 10 ms; it rejects more as write conflicts.
      if (!isWriteConflict(error) || failures > maxRetries) throw error
      await budget.backOff(failures)
    }
  }
}

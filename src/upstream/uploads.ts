import { UpstreamError } from '../domain/errors.ts'
import { fromSyncSeconds } from '../domain/timestamp.ts'
import { readJson } from './answer.ts'
import { readUploadResult, writeBsos } from './bso.ts'
import { unmodifiedSinceHeader } from './wire.ts'
import type { CommitOutcome, RecordWrite, StageOutcome } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { UploadResult } from './bso.ts'
import type { StorageCalls } from './storage-calls.ts'
import type { Query } from './storage-url.ts'

const maxResultBytes = 4 * 1024 * 1024

/** Writes records in one request; see Sync 1.5 API, `POST storage/<collection>`. */
export async function upload(
  calls: StorageCalls,
  collection: string,
  records: RecordWrite[],
  unmodifiedSince: Timestamp,
): Promise<CommitOutcome> {
  const answer = await post(calls, collection, [], records, unmodifiedSince, 'upload')
  if (answer.status === 412) return { outcome: 'moved' }
  return committed(answer, await readResult(answer, records))
}

/** Opens a batch or adds to one; a storage without batches writes at once. See Sync 1.5 API, "Batch uploads". */
export async function stage(
  calls: StorageCalls,
  collection: string,
  records: RecordWrite[],
  unmodifiedSince: Timestamp,
  batch?: string,
): Promise<StageOutcome> {
  const query: Query = [['batch', batch ?? 'true']]
  const answer = await post(calls, collection, query, records, unmodifiedSince, 'staging')
  if (answer.status === 412) return { outcome: 'moved' }
  const result = await readResult(answer, records)
  if (answer.status === 200) return committed(answer, result)
  if (result.batch === null) throw nonsense('it names no batch')
  return { outcome: 'staged', batch: result.batch, rejected: result.rejected }
}

/** Makes a batch visible. Nothing is added with it: what the storage could not add would not undo the rest. */
export async function commitStaged(
  calls: StorageCalls,
  collection: string,
  batch: string,
  unmodifiedSince: Timestamp,
): Promise<CommitOutcome> {
  const query: Query = [
    ['batch', batch],
    ['commit', 'true'],
  ]
  const answer = await post(calls, collection, query, [], unmodifiedSince, 'staging')
  if (answer.status === 412) return { outcome: 'moved' }
  return committed(answer, await readResult(answer, []))
}

async function post(
  calls: StorageCalls,
  collection: string,
  query: Query,
  records: RecordWrite[],
  unmodifiedSince: Timestamp,
  subject: 'upload' | 'staging',
): Promise<UpstreamAnswer> {
  const path = ['storage', collection]
  const headers = unmodifiedSinceHeader(unmodifiedSince)
  return await calls.write({ method: 'POST', path, query, headers, body: writeBsos(records), subject })
}

async function readResult(answer: UpstreamAnswer, records: RecordWrite[]): Promise<UploadResult> {
  const ids = records.map(({ id }) => id)
  const result = readUploadResult(await readJson(answer, maxResultBytes), ids)
  if (!result) throw nonsense('it tells no result')
  return result
}

function committed({ status, headers }: UpstreamAnswer, result: UploadResult): CommitOutcome {
  const timestamp = result.timestamp ?? fromSyncSeconds(headers.get('x-last-modified'))
  if (status !== 200 || !timestamp) throw nonsense('it tells no timestamp')
  return { outcome: 'committed', timestamp, rejected: result.rejected }
}

/** The request may well have been carried out. */
function nonsense(what: string): UpstreamError {
  return new UpstreamError('bad-response', `Cannot use an answer to an upload: ${what}`)
}

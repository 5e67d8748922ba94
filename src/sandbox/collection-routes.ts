import type { Bso } from './bso.ts'
import { choosePage, renderPage } from './listing.ts'
import { checkQuota, quotaHeaders, type Operation } from './operation.ts'
import { jsonReply, type Reply } from './reply.ts'
import { formatSeconds } from './timestamps.ts'

/** Answers GET /storage/<collection>. */
export function listCollection(operation: Operation): Reply {
  const { storage, query, format, switches } = operation
  const page = choosePage(storage, { ...operation, listCap: switches.listCap }, query)
  const headers: Record<string, string> = { 'X-Weave-Records': String(page.rows.length) }
  if (page.nextOffset !== null) headers['X-Weave-Next-Offset'] = page.nextOffset
  const body = renderPage(storage, page, query.full, format)
  return { status: 200, body, headers, contentType: `application/${format}` }
}

/** Answers POST /storage/<collection>: an upload, or one step of a batch. */
export function postCollection(operation: Operation): Reply {
  switch (operation.batch.kind) {
    case 'none':
      checkQuota(operation)
      return store(operation)
    case 'start':
    case 'append':
      checkQuota(operation)
      return stage(operation, operation.batch)
    case 'commit':
      return commit(operation, operation.batch.id)
    default:
      return operation.batch satisfies never
  }
}

/** Answers DELETE /storage/<collection>, with or without ids. */
export function deleteCollection(operation: Operation): Reply {
  const { storage, uid, collection, query, timestamp, quirks } = operation
  if (query.ids === null) {
    storage.deleteCollection(uid, collection, timestamp)
    return deletedReply(storage.storeTimestamp(uid), quirks.isPython)
  }
  storage.deleteItems(uid, collection, query.ids)
  storage.touch(uid, collection, timestamp)
  return { ...deletedReply(timestamp, quirks.isPython), lastModified: timestamp }
}

function store(operation: Operation, staged: readonly Bso[] = []): Reply {
  const { storage, uid, collection, timestamp, upload } = operation
  for (const bso of staged) storage.put(uid, collection, bso, timestamp, true)
  for (const bso of upload.valid) storage.put(uid, collection, bso, timestamp)
  storage.touch(uid, collection, timestamp)
  const body = `{"modified":${formatSeconds(timestamp)},${formatOutcome(upload)}}`
  return { ...jsonReply(body, timestamp), headers: quotaHeaders(operation) }
}

// The answer looks well also when the database failed: then all records of the request are reported as failed.
function stage(operation: Operation, batch: { kind: 'start' } | { kind: 'append'; id: string }): Reply {
  const { batches, uid, collection, nowMs, upload, limits, quirks } = operation
  const id = batch.kind === 'start' ? batches.start(uid, collection, nowMs) : batch.id
  const isStaged = batches.append(batches.find(id, uid, collection, nowMs), upload.valid, limits)
  // PostgreSQL undoes the whole transaction, and with it the batch that it began.
  if (!isStaged && batch.kind === 'start' && !quirks.appendOverwritesAll) batches.take(id)
  const outcome = isStaged
    ? upload
    : { valid: [], failed: { ...upload.failed, ...databaseErrors(upload.valid) } }
  return { status: 202, body: `{"batch":${JSON.stringify(id)},${formatOutcome(outcome)}}` }
}

// The body of a commit may bring more records; the time that lives are counted from is the commit's.
function commit(operation: Operation, id: string): Reply {
  const { batches, uid, collection, nowMs } = operation
  batches.find(id, uid, collection, nowMs)
  return store(operation, batches.take(id))
}

function databaseErrors(bsos: readonly Bso[]): Record<string, string> {
  return Object.fromEntries(bsos.map(({ id }) => [id, 'db error']))
}

function formatOutcome({ valid, failed }: Operation['upload']): string {
  return `"success":${JSON.stringify(valid.map(({ id }) => id))},"failed":${JSON.stringify(failed)}`
}

function deletedReply(timestamp: number, isPython: boolean): Reply {
  const seconds = formatSeconds(timestamp)
  return jsonReply(isPython ? `{"modified":${seconds}}` : seconds)
}

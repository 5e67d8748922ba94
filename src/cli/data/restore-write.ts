import { ClientError } from '../../client/errors.ts'
import { stopSignals } from '../signals.ts'
import { Progress } from './progress.ts'
import { contentOf, type Source, type Write } from './restore-plan.ts'
import { someOf } from './phrases.ts'
import type { Session } from './session.ts'
import type { SyncClient, TransactionRequest, TransactionResponse } from '../../client/sync-client.ts'

const maxBatchBytes = 1_500_000

/** Aborts at the first signal, so that a restore ends between two batches and says what it has written; a second one exits at once. */
export function stopBetweenBatches({ host, tell }: Session): AbortSignal {
  const stopping = new AbortController()
  const { stop, abort } = stopSignals(host, 0)
  void stop.then(() => {
    stopping.abort(new ClientError('Interrupted: run it again to write the rest'))
    tell('Stopping after this batch. Press Ctrl+C again to stop at once')
  })
  void abort.then((code) => process.exit(code))
  return stopping.signal
}

/** Writes the planned records, each on the condition that it has not changed meanwhile; false if any was rejected. */
export async function writePlan(
  { client, host, tell }: Session,
  source: Source,
  writes: readonly Write[],
  stopping: AbortSignal,
): Promise<boolean> {
  if (writes.length === 0) return true
  const progress = new Progress(host)
  const { maxRequests } = await client.info()
  /** Ids by the reason. */
  const refused = new Map<string, string[]>()
  let [written, changed, notAllowed] = [0, 0, 0]
  try {
    for await (const part of partsOf(source, writes, maxRequests)) {
      stopping.throwIfAborted()
      for await (const [{ id }, { status, body }] of send(client, part)) {
        if (status === 200) written += 1
        else if (status === 412) changed += 1
        else if (status === 405) notAllowed += 1
        else refused.getOrInsertComputed(`${status} ${body.message ?? ''}`, () => []).push(id)
      }
      progress.show(`${written} of ${writes.length} written`)
    }
  } finally {
    progress.clear()
    tell(`  ${written} written, ${changed} skipped: changed meanwhile`)
  }
  if (notAllowed > 0) tell(`  ${notAllowed} rejected: this bridge has not enabled writes to this collection`)
  for (const [reason, ids] of refused) tell(`  ${ids.length} rejected (${reason}): ${someOf(ids)}`)
  return notAllowed === 0 && refused.size === 0 && changed === 0
}

/**
 * Sends requests as one transaction. Those that the storage refuses together are sent as two, until a single record is refused. Yields each
 * with its response.
 */
async function* send(
  client: SyncClient,
  requests: TransactionRequest[],
): AsyncGenerator<[TransactionRequest, TransactionResponse]> {
  const responses = await client.transaction(requests)
  const isRefused = (index: number) => [400, 413].includes(responses[index]!.status)
  const refused = requests.filter((_, index) => isRefused(index))
  const isTogether = refused.length > 1
  for (const [index, request] of requests.entries())
    if (!isTogether || !isRefused(index)) yield [request, responses[index]!]
  if (!isTogether) return
  const half = refused.length >> 1
  yield* send(client, refused.slice(0, half))
  yield* send(client, refused.slice(half))
}

/** Reads and encrypts records when they are written, in batches within the limits of number and size. */
async function* partsOf(
  source: Source,
  writes: readonly Write[],
  maxRequests: number,
): AsyncGenerator<TransactionRequest[]> {
  let part: TransactionRequest[] = []
  let bytes = 0
  for (const write of writes) {
    const request = await requestOf(source, write)
    const size = JSON.stringify(request).length
    if (part.length > 0 && (part.length === maxRequests || bytes + size > maxBatchBytes)) {
      yield part
      part = []
      bytes = 0
    }
    part.push(request)
    bytes += size
  }
  if (part.length > 0) yield part
}

async function requestOf(source: Source, write: Write): Promise<TransactionRequest> {
  const { collection, keys } = source
  const { id, version } = write
  const { saved, clear, isAsSaved } = await contentOf(source, write)
  const payload = isAsSaved || !clear ? saved.payload : await keys.seal(collection, { ...clear, id })
  const { sortindex } = saved
  return {
    method: 'PUT',
    collection,
    id,
    headers: version === null ? { 'If-None-Match': '*' } : { 'If-Match': `"${version}"` },
    data: { payload, ...(sortindex !== undefined && { sortindex }) },
  }
}

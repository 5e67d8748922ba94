import { configurationDocument } from './limits.ts'
import { usedKilobytes, type Operation } from './operation.ts'
import { jsonReply, type Reply } from './reply.ts'
import type { InfoPage } from './routes.ts'
import { formatSeconds } from './timestamps.ts'

/** Answers GET /info/<page>; see Sync 1.5 API, "General Info". */
export function readInfo(page: InfoPage, operation: Operation): Reply {
  const { storage, uid, nowMs, switches, quirks } = operation
  switch (page) {
    case 'collections':
      return mapReply(
        storage.collectionTimestamps(uid).map(([name, modified]) => [name, formatSeconds(modified)]),
      )
    case 'collection_counts':
      return mapReply(storage.usage(uid, nowMs).map(({ collection, count }) => [collection, String(count)]))
    case 'collection_usage':
      return mapReply(
        storage.usage(uid, nowMs).map(({ collection, bytes }) => [collection, formatFloat(bytes / 1024)]),
      )
    case 'quota': {
      const quota = quirks.isPython ? switches.quotaKilobytes : null
      return jsonReply(`[${formatFloat(usedKilobytes(operation))},${quota}]`)
    }
    case 'configuration':
      return jsonReply(JSON.stringify(configurationDocument(switches.limits, switches.batching)), 0)
    default:
      return page satisfies never
  }
}

/** Answers DELETE of the whole store. */
export function deleteStore({ storage, batches, uid, quirks }: Operation): Reply {
  storage.deleteStore(uid)
  batches.forget(uid)
  return jsonReply(quirks.isPython ? '{}' : 'null')
}

function mapReply(entries: [name: string, json: string][]): Reply {
  const members = entries.map(([name, json]) => `${JSON.stringify(name)}:${json}`)
  return { ...jsonReply(`{${members.join()}}`), headers: { 'X-Weave-Records': String(entries.length) } }
}

function formatFloat(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value)
}

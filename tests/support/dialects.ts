import { randomBytes } from 'node:crypto'
import { mozilla, trimmedIds, type Dialect, type ListOrder } from '../../src/sandbox/dialect.ts'
import { code, Refusal } from '../../src/sandbox/reply.ts'
import { quantumMs } from '../../src/sandbox/timestamps.ts'

/** The storage servers that tests imitate. */
export type ServerKind = 'postgres' | 'mysql' | 'spanner' | 'python'

/** The dialect of a server, for one sandbox. */
export const dialectOf: Record<ServerKind, () => Dialect> = {
  postgres: () => mozilla,
  mysql,
  spanner,
  python,
}

const foldingIds: Pick<Dialect, 'collation' | 'keyOf'> = {
  collation: 'NOCASE',
  keyOf: (id) => id.toLowerCase().replace(/ {1,64}$/, ''),
}

// Without an order of their own, records come in that of their keys: not as inserted, so that a client that relies on it fails in tests.
const anyOrder: ListOrder = { sql: 'key', position: 'count' }
const indexOrder: ListOrder = { sql: 'sortindex DESC, key', position: 'count' }

// MariaDB's tables ignore case in names and hold Latin-1; its batch statements differ.
function mysql(): Dialect {
  return {
    ...mozilla,
    ...foldingIds,
    nodeType: 'mysql',
    listCap: 10_000,
    canStore: (payload) => /^[\0-\u00ff]*$/.test(payload),
    orderOf(query) {
      if (query.sort === 'index') return indexOrder
      const isUnordered = !query.full && (query.sort === null || query.sort === 'none')
      return isUnordered ? anyOrder : mozilla.orderOf(query)
    },
    // The second writer gets a deadlock.
    meetFirstWriter() {
      throw new Refusal(500)
    },
    createBatchId: decimalIds(),
    stage(staged, key, { payload, ttl, ...bso }) {
      if (!this.canStore(payload ?? '')) return false
      const changes = { ...(payload !== undefined && { payload }), ...(ttl !== undefined && { ttl }) }
      if (!staged.has(key)) {
        staged.set(key, { ...bso, ...changes })
        return true
      }
      // An update that changes nothing fails.
      if (payload === undefined && ttl === undefined) return false
      // The UPDATE statement lacks a WHERE for the row, and omits the sortindex.
      for (const [other, fields] of staged) staged.set(other, { ...fields, ...changes })
      return true
    },
    keepsRecordsBeforeFailure: true,
    discardsBatches: false,
  }
}

function spanner(): Dialect {
  return {
    ...mozilla,
    nodeType: 'spanner',
    // It rejects larger mutations, so its total is capped whatever is configured.
    limits: { ...mozilla.limits, max_total_bytes: 100_000_000 },
    expiredCounts: false,
    canStore: () => true,
    orderOf(query) {
      if (query.sort === 'index') return indexOrder
      return query.sort === null || query.sort === 'none'
        ? anyOrder
        : { ...mozilla.orderOf(query), position: 'count' }
    },
    createBatchId: () => randomBytes(16).toString('hex'),
  }
}

// The server before the current one.
function python(): Dialect {
  return {
    ...mozilla,
    ...foldingIds,
    nodeType: null,
    limits: {
      max_request_bytes: 2_101_248,
      max_post_bytes: 2_097_152,
      max_post_records: 100,
      max_record_payload_bytes: 2_097_152,
      max_total_bytes: 209_715_200,
      max_total_records: 10_000,
    },
    timestampAt: (ms) => Math.ceil(ms / quantumMs) * quantumMs,
    keepsStoreTimestamp: false,
    expiredCounts: false,
    missingType: 'application/json',
    parseBody(text) {
      const value = parseJson(text)
      return Array.isArray(value) ? value.map(acceptedRecord) : acceptedRecord(value)
    },
    splitIds(text) {
      const ids = trimmedIds(text)
      if (ids.includes('')) throw new Refusal(400, 1)
      return ids
    },
    finishReply(reply, { method, resource, quotaKilobytes, usedKilobytes }) {
      if (method === 'DELETE' && resource === 'collection') {
        return { ...reply, body: `{"modified":${String(reply.body)}}` }
      }
      if (method === 'DELETE' && resource === 'store') return { ...reply, body: '{}' }
      if (quotaKilobytes === null) return reply
      if (resource === 'quota') {
        return { ...reply, body: String(reply.body).replace('null', String(quotaKilobytes)) }
      }
      // Less than 1 MB is left.
      const left = Math.max(0, Math.floor(quotaKilobytes - usedKilobytes()))
      const isWarning = left < 1024 && (method === 'PUT' || method === 'POST') && reply.status === 200
      return isWarning ? { ...reply, headers: { 'X-Weave-Quota-Remaining': String(left) } } : reply
    },
    canStore: () => true,
    orderOf: (query) => (query.sort === 'index' ? indexOrder : mozilla.orderOf(query)),
    createBatchId: decimalIds(),
  }
}

// Milliseconds in base64, so clients must percent-encode the id in the query.
function decimalIds(): Dialect['createBatchId'] {
  let last = 0
  return (nowMs) => {
    last = Math.max(last + 1, nowMs)
    return Buffer.from(String(last)).toString('base64')
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refusal(400, code.json)
  }
}

// A sortindex may be a string of digits, and a ttl of more than a year is silently ignored.
function acceptedRecord(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const { ttl, ...fields } = value as { ttl?: unknown; sortindex?: unknown }
  const { sortindex } = fields
  return {
    ...fields,
    ...(!(typeof ttl === 'number' && ttl > 31_536_000) && { ttl }),
    ...(typeof sortindex === 'string' && sortindex !== '' && { sortindex: Number(sortindex) }),
  }
}

import { randomUUID } from 'node:crypto'
import type { Bso } from './bso.ts'
import type { Limits } from './limits.ts'
import { code, Refusal, type Reply } from './reply.ts'
import { quantumMs } from './timestamps.ts'

/** The media types of a body; `text/plain` is read as JSON. */
export type BodyType = 'application/json' | 'text/plain' | 'application/newlines'

/** The sort orders of a list. */
export type Sort = 'newest' | 'oldest' | 'index' | 'none'

/** How a list is ordered, and what an offset of its next page says. */
export interface ListOrder {
  sql: string
  /** The last record's timestamp, or the number of records before the page. */
  position: 'time' | 'count'
}

/** The request that a reply is for, and the usage of its store. */
export interface RepliedRequest {
  method: string
  /** A page of `/info/`, or what the path names. */
  resource: string
  quotaKilobytes: number | null
  usedKilobytes(): number
}

/** Where servers differ. The sandbox is `mozilla`; tests inject others. */
export interface Dialect {
  /** `node_type` in the answer of the token server. */
  readonly nodeType: string | null
  readonly limits: Limits
  /** Maximum records that a list without `limit` returns; null for all. */
  readonly listCap: number | null

  /** The timestamp of a write at this time: milliseconds, a multiple of the quantum. */
  timestampAt(ms: number): number
  /** Whether the timestamp of a store still counts deleted collections. */
  readonly keepsStoreTimestamp: boolean
  /** Whether preconditions still use the timestamp of an expired record. */
  readonly expiredCounts: boolean

  /** The type of a body without Content-Type; null if it is rejected. */
  readonly missingType: BodyType | null
  /** Parses JSON; throws Refusal. */
  parseBody(text: string): unknown
  /** The ids of a query. */
  splitIds(text: string): string[]
  /** Changes the reply to a request that was accepted. */
  finishReply(reply: Reply, request: RepliedRequest): Reply

  /** How the names of collections are compared. */
  readonly collation: 'BINARY' | 'NOCASE'
  /** The key of a record in the table; ids with the same key name one record. */
  keyOf(id: string): string
  /** Whether the database can store a payload; others cause a database error. */
  canStore(payload: string): boolean
  orderOf(query: { sort: Sort | null; full: boolean }): ListOrder
  /** Called if another writer created a collection after the checks of this one; may throw Refusal. */
  meetFirstWriter(): void

  createBatchId(nowMs: number): string
  /** Adds a record to those that a batch has staged, by key; false if the database fails. */
  stage(staged: Map<string, Bso>, key: string, bso: Bso): boolean
  /** Whether a database error leaves the records before it in the batch. */
  readonly keepsRecordsBeforeFailure: boolean
  /** Whether deleting a collection discards its batches. */
  readonly discardsBatches: boolean
}

const orders = {
  newest: 'modified DESC, id DESC',
  oldest: 'modified, id',
  index: 'sortindex IS NULL DESC, sortindex DESC, id DESC',
}

/** Mozilla's server of today, over PostgreSQL. */
export const mozilla: Dialect = {
  nodeType: 'postgres',
  limits: {
    max_request_bytes: 2_625_536,
    max_post_bytes: 2_621_440,
    max_post_records: 100,
    max_record_payload_bytes: 2_621_440,
    max_total_bytes: 262_144_000,
    max_total_records: 10_000,
    max_quota_limit: 2_097_152_000,
  },
  listCap: null,
  timestampAt: (ms) => Math.floor(ms / quantumMs) * quantumMs,
  keepsStoreTimestamp: true,
  expiredCounts: true,
  missingType: null,
  parseBody,
  splitIds: (text) => trimmedIds(text).filter((id) => id !== ''),
  finishReply: (reply) => reply,
  collation: 'BINARY',
  keyOf: (id) => id,
  canStore: (payload) => !payload.includes('\0'),
  orderOf({ sort, full }) {
    const known = sort === null || sort === 'none' ? 'newest' : sort
    return { sql: orders[known], position: full && known !== 'index' ? 'time' : 'count' }
  },
  meetFirstWriter() {},
  createBatchId: () => randomUUID(),
  stage(staged, key, bso) {
    if (!this.canStore(bso.payload ?? '')) return false
    staged.set(key, { ...staged.get(key), ...bso })
    return true
  },
  keepsRecordsBeforeFailure: false,
  discardsBatches: true,
}

/** The parts of a list of ids, empty ones included. */
export function trimmedIds(text: string): string[] {
  return text.split(',').map((id) => id.trim())
}

function parseBody(text: string): unknown {
  if (hasLoneSurrogate(text)) throw new Refusal(400, code.invalidRecord)
  try {
    return JSON.parse(text, readNumber)
  } catch {
    throw new Refusal(400, code.invalidRecord)
  }
}

// The server does not accept 1.0 or -0 as an integer.
function readNumber(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number') return value
  return /^(0|-?[1-9]\d*)$/.test(context?.source ?? '') ? value : Number.NaN
}

// Half a surrogate pair can only occur as an escape. Skips escaped backslashes in pairs.
function hasLoneSurrogate(text: string): boolean {
  if (!/\\u[dD][89a-fA-F]/.test(text)) return false
  const escapes = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F]|\\./g
  return (text.match(escapes) ?? []).some((escape) => escape.length === 4)
}

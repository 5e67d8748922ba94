import type { Step } from '../../src/domain/operation.ts'
import type { SyncRecord } from '../../src/domain/record.ts'
import type { Precondition } from '../../src/domain/precondition.ts'
import { orders, recordSelector } from '../../src/domain/list.ts'
import type { ListOptions } from '../../src/domain/record-storage.ts'

/** Stands for the timestamp of the operations' own writes. */
export const fresh = Number.MAX_SAFE_INTEGER

/** The expected results: operations executed one by one, as the contract says, without other clients. */
export interface Expected {
  outcomes: Map<number, unknown>
  after: Map<string, { payload: string; sortindex?: number }>
}

/**
 * A naive implementation of the contract, for comparison. `failed` lists the operations that the storage rejected, which have no effect.
 */
export function sequentially(
  operations: { index: number; operation: Exclude<Step['operation'], { kind: 'timestamps' }> }[],
  before: Map<string, SyncRecord>,
  timestamp: number,
  failed: Set<number>,
): Expected {
  const records = new Map<string, SyncRecord>([...before].map(([id, record]) => [id, { ...record }]))
  const outcomes = new Map<number, unknown>()
  let collectionAt = timestamp

  for (const { index, operation } of operations) {
    outcomes.set(index, answer(index, operation))
  }
  const after: Expected['after'] = new Map()
  for (const [id, { payload, sortindex }] of records) {
    after.set(id, { payload, ...(sortindex === undefined ? {} : { sortindex }) })
  }
  return { outcomes, after }

  function answer(index: number, operation: Exclude<Step['operation'], { kind: 'timestamps' }>): unknown {
    const { precondition } = operation
    switch (operation.kind) {
      case 'get': {
        const current = records.get(operation.id)
        if (!current) return { outcome: 'missing' }
        if (precondition.kind === 'absent' || isSame(precondition, current.lastModified)) {
          return { outcome: 'not-modified', timestamp: current.lastModified }
        }
        if (hasChanged(precondition, current.lastModified)) {
          return { outcome: 'precondition-failed', existing: current }
        }
        return { outcome: 'found', record: current }
      }
      case 'list':
      case 'count': {
        if (isSame(precondition, collectionAt)) return { outcome: 'not-modified', timestamp: collectionAt }
        if (hasChanged(precondition, collectionAt)) {
          return { outcome: 'precondition-failed', timestamp: collectionAt }
        }
        if (operation.kind === 'count') {
          const isListed = recordSelector(operation.filter)
          const count = [...records.values()].filter(isListed).length
          return { outcome: 'counted', timestamp: collectionAt, count }
        }
        const ids = listed([...records.values()], operation.options).map(({ id }) => id)
        return {
          outcome: 'page',
          timestamp: collectionAt,
          ids: new Set(ids.slice(0, operation.options.limit)),
          of: ids,
        }
      }
      case 'put': {
        const current = records.get(operation.id)
        const mayWrite =
          precondition.kind === 'none' ||
          precondition.kind === 'differs' ||
          (precondition.kind === 'absent' && !current) ||
          (precondition.kind === 'exists' && current) ||
          (precondition.kind === 'unmodified-since' &&
            current &&
            !hasChanged(precondition, current.lastModified))
        if (!mayWrite) return { outcome: 'precondition-failed', existing: current ?? null }
        if (failed.has(index)) return { outcome: 'failed' }
        const { payload, sortindex, ttlSeconds } = operation.input
        const kept = before.get(operation.id)?.sortindex
        // A deleted record's row keeps its sortindex, as that of an expired one does.
        const row = current ?? (kept === undefined ? {} : { sortindex: kept })
        const stored: SyncRecord = { payload: '', ...row, id: operation.id, lastModified: fresh as never }
        if (payload !== undefined) stored.payload = payload
        if (sortindex !== undefined) stored.sortindex = sortindex
        if (ttlSeconds === 0) records.delete(operation.id)
        else records.set(operation.id, stored)
        collectionAt = fresh
        return { outcome: 'stored', record: stored }
      }
      case 'delete': {
        const current = records.get(operation.id)
        if (!current) return { outcome: 'missing' }
        if (hasChanged(precondition, current.lastModified)) {
          return { outcome: 'precondition-failed', existing: current }
        }
        if (failed.has(index)) return { outcome: 'failed' }
        records.delete(operation.id)
        collectionAt = fresh
        return { outcome: 'deleted', id: operation.id, timestamp: fresh }
      }
      default:
        return operation satisfies never
    }
  }
}

function hasChanged(precondition: Precondition, current: number): boolean {
  return precondition.kind === 'unmodified-since' && current > precondition.timestamp
}

function isSame(precondition: Precondition, current: number): boolean {
  return precondition.kind === 'differs' && current === precondition.timestamp
}

/** The records of a list, over all pages. */
function listed(records: SyncRecord[], { sort, ...filter }: ListOptions): SyncRecord[] {
  return records.filter(recordSelector(filter)).sort(orders[sort])
}

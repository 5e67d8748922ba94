import type { ClearRecord } from '../crypto.ts'
import type { SyncRecord } from '../collection.ts'
import type { Problem, ProblemCode, RecordEdit } from './edit.ts'
import type { RecordWrite } from './edit-requests.ts'

/** The records of a collection other than bookmarks, or some of them, as a value. */
export interface RecordSet {
  /** Without deletions. */
  records: ReadonlyMap<string, ClearRecord>
  /** The timestamp of each stored record, deletions and unreadable ones included. */
  versions: ReadonlyMap<string, number>
  /** The ids of records that the key can't decrypt. */
  unreadable: ReadonlySet<string>
}

/** Reads the records of a collection, or some of them. */
export function readRecordSet(all: Iterable<SyncRecord>): RecordSet {
  const records = new Map<string, ClearRecord>()
  const versions = new Map<string, number>()
  const unreadable = new Set<string>()
  for (const { stored, clear } of all) {
    records.delete(stored.id)
    versions.set(stored.id, stored.last_modified)
    if (clear === null) unreadable.add(stored.id)
    else if (clear.deleted !== true) records.set(stored.id, clear)
  }
  return { records, versions, unreadable }
}

/** Applies edits to records; pure. A field that has another value than in `shown` was changed by another device, and stays. */
export function applyRecordEdits(
  set: RecordSet,
  edits: readonly RecordEdit[],
  shown: RecordSet = set,
): { set: RecordSet; problems: Problem[] } {
  const records = new Map(set.records)
  const problems: Problem[] = []
  for (const edit of edits) {
    const id = edit.id ?? ''
    const report = (code: ProblemCode, message: string) =>
      problems.push({ code, edit, id, message: `${JSON.stringify(id)} ${message}` })
    const now = set.records.get(id)
    const was = shown.records.get(id)
    const record = records.get(id)
    if (set.unreadable.has(id)) report(edit.op === 'add' ? 'invalid' : 'gone', 'cannot be decrypted')
    else if (edit.op === 'add') {
      if (id === '') report('invalid', 'is no id')
      else if (!record) records.set(id, { ...edit.record, id })
    } else if (edit.op === 'remove') {
      if (now && was && !isSame(now, was))
        report('changed', 'was changed by another device meanwhile: it stays')
      else records.delete(id)
    } else if (record) {
      const fields = { ...edit.fields }
      for (const [name, value] of Object.entries(fields)) {
        if (!now || !was || isSame(now[name], was[name]) || isSame(now[name], value)) continue
        delete fields[name]
        report('changed', `has another ${name} since another device changed it: it stays`)
      }
      records.set(id, withFields(record, fields, id))
    } else report('gone', 'does not exist any more')
  }
  return { set: { ...set, records }, problems }
}

/** The record with other fields; without those that are undefined. */
function withFields(record: ClearRecord, fields: Record<string, unknown>, id: string): ClearRecord {
  const changed = { ...record, ...fields, id }
  for (const [name, value] of Object.entries(fields))
    if (value === undefined) delete (changed as Record<string, unknown>)[name]
  return changed
}

/** The records that differ, and a tombstone for each that was removed. */
export function recordRequestsOf(before: RecordSet, after: RecordSet): RecordWrite[] {
  const versionOf = (id: string) => before.versions.get(id) ?? null
  const written = [...after.records.values()].filter((record) => {
    const former = before.records.get(record.id)
    return former !== record && !isSame(former, record)
  })
  const removed = [...before.records.keys()].filter((id) => !after.records.has(id))
  return [
    ...written.map((record) => ({ id: record.id, record, version: versionOf(record.id) })),
    ...removed.map((id) => ({ id, record: { id, deleted: true }, version: versionOf(id) })),
  ]
}

/** The edits that lead from the records that were shown to those that are wanted. */
export function recordEditsBetween(shown: RecordSet, wanted: RecordSet): RecordEdit[] {
  const edits: RecordEdit[] = []
  for (const [id, record] of wanted.records) {
    const was = shown.records.get(id)
    if (!was) edits.push({ op: 'add', id, record })
    else {
      const names = new Set([...Object.keys(was), ...Object.keys(record)])
      const changed = [...names].filter((name) => !isSame(was[name], record[name]))
      if (changed.length > 0)
        edits.push({
          op: 'change',
          id,
          fields: Object.fromEntries(changed.map((name) => [name, record[name]])),
        })
    }
  }
  for (const id of shown.records.keys()) if (!wanted.records.has(id)) edits.push({ op: 'remove', id })
  return edits
}

/** Whether two values of a record are the same; the order of fields has no meaning. */
function isSame(one: unknown, other: unknown): boolean {
  const waiting: [unknown, unknown][] = [[one, other]]
  for (let pair = waiting.pop(); pair; pair = waiting.pop()) {
    const [left, right] = pair
    if (left === right) continue
    if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false
    if (Array.isArray(left) !== Array.isArray(right)) return false
    const names = Object.keys(left)
    if (names.length !== Object.keys(right).length) return false
    for (const name of names) {
      if (!Object.hasOwn(right, name)) return false
      waiting.push([(left as Record<string, unknown>)[name], (right as Record<string, unknown>)[name]])
    }
  }
  return true
}

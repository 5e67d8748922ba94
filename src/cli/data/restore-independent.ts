import { faultOf } from '../../client/engine-records.ts'
import { textOf } from '../../client/fields.ts'
import { describeDifferences, differingFields } from './differing-fields.ts'
import {
  compare,
  contentOf,
  emptyPlan,
  isInTime,
  isWanted,
  recordLabel,
  type Plan,
  type Source,
  type Wanted,
  type Write,
} from './restore-plan.ts'

/** Plans a collection whose records don't depend on each other; keeps only ids and versions. */
export async function planIndependent(source: Source, wanted: Wanted): Promise<Plan> {
  const { collection, client, file, savedKeys, keys } = source
  const hasNewKeys = savedKeys.payload !== keys.payload
  const plan = emptyPlan()
  const missing = new Set(file.ids)
  /** The present titles of pages that differ, and whether in nothing else. */
  const titles = new Map<string, { title: string; isAll: boolean }>()
  let hasOthers = false
  for await (const { records } of client.collection(collection).storedPages()) {
    for (const there of records) {
      hasOthers ||= !file.has(there.id)
      if (!missing.delete(there.id) || !isWanted(there.id, wanted)) continue
      const saved = await file.read(there.id)
      const isSame = saved.payload === there.payload
      if (isSame && !hasNewKeys) continue
      const before = await savedKeys.openRecord(collection, saved)
      const now = await keys.openRecord(collection, there)
      const kind = compare(before, now, isSame, hasNewKeys)
      if (kind === 'unreadable') plan.unreadable.push(there.id)
      if (kind === 'equal' || kind === 'unreadable' || !isInTime(kind, there, wanted)) continue
      if (before.clear && faultOf(collection, before.clear) !== null) {
        plan.faulty.push(there.id)
        continue
      }
      const write: Write = { id: there.id, savedId: there.id, kind, version: there.last_modified }
      if (kind === 'differs') {
        const differences = describeDifferences(collection, now.clear, before.clear)
        if (!wanted.overwrites) {
          plan.different.push({ title: recordLabel(collection, before.clear, there.id), differences })
          continue
        }
        write.differences = differences
        const isAll = differingFields(now.clear, before.clear).join() === 'title'
        if (collection === 'history') titles.set(there.id, { title: textOf(now.clear?.title), isAll })
      }
      plan.writes.push(write)
    }
  }
  if (wanted.deletedSince === null) {
    for (const id of missing) {
      if (!isWanted(id, wanted)) continue
      const { kind, clear } = await savedKeys.openRecord(collection, await file.read(id))
      if (kind === 'unreadable' && hasNewKeys) plan.unreadable.push(id)
      else if (clear && faultOf(collection, clear) !== null) plan.faulty.push(id)
      else if (kind !== 'deleted') plan.writes.push({ id, savedId: id, kind: 'missing', version: null })
    }
  }
  if (collection === 'history' && hasOthers && plan.writes.length > 0)
    plan.writes = await keepTitles(source, plan.writes, titles)
  return plan
}

/**
 * Gives pages that were visited again, under other ids, their present titles: Firefox takes the one that it receives last. Leaves out what an
 * earlier restore has written so.
 */
async function keepTitles(
  source: Source,
  writes: Write[],
  titles: ReadonlyMap<string, { title: string; isAll: boolean }>,
): Promise<Write[]> {
  const { collection, client, keys } = source
  const addresses = new Map<string, string>()
  for (const write of writes) addresses.set(write.id, textOf((await contentOf(source, write)).clear?.histUri))
  const wanted = new Set(addresses.values())
  const present = new Map<string, string>()
  for await (const { records } of client.collection(collection).storedPages()) {
    for (const record of records) {
      if (addresses.has(record.id)) continue
      const { kind, clear } = await keys.openRecord(collection, record)
      if (kind === 'living' && wanted.has(textOf(clear.histUri)))
        present.set(textOf(clear.histUri), textOf(clear.title))
    }
  }
  return writes.filter((write) => {
    const title = present.get(addresses.get(write.id)!)
    const now = titles.get(write.id)
    if (!title || (now && now.title !== title)) return true
    write.changes = { title }
    return !now?.isAll
  })
}

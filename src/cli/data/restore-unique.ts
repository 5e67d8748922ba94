import { faultOf } from '../../client/engine-records.ts'
import { textOf, type Fields } from '../../client/fields.ts'
import { describeDifferences } from './differing-fields.ts'
import {
  compare,
  emptyPlan,
  isInTime,
  isWanted,
  recordLabel,
  type Plan,
  type Source,
  type Wanted,
  type Write,
} from './restore-plan.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'
import type { Opened } from './record-keys.ts'

/** What Firefox has at most one record for, by collection; an empty string for none. It keeps the one that comes last. */
export const uniqueKeys: ReadonlyMap<string, KeyOf> = new Map([
  ['passwords', loginOf],
  ['extension-storage', ({ extId }) => textOf(extId)],
])

function loginOf({ hostname, httpRealm, username }: Fields): string {
  return textOf(hostname) && JSON.stringify([hostname, httpRealm, username])
}

/** Plans a collection of `uniqueKeys`: a record that was saved again under another id is the same. */
export async function planUnique(source: Source, wanted: Wanted): Promise<Plan> {
  const { collection, file, savedKeys, keys } = source
  const hasNewKeys = savedKeys.payload !== keys.payload
  const plan = emptyPlan()
  const current = await readCurrent(source)
  const saved = new Map<string, ClearRecord>()
  for (const id of file.ids) {
    if (!isWanted(id, wanted)) continue
    const stored = await file.read(id)
    const before = await savedKeys.openRecord(collection, stored)
    if (before.kind === 'deleted') continue
    const found = current.get(id)
    if (before.clear) {
      if (faultOf(collection, before.clear) === null) saved.set(id, before.clear)
      else if (!Bun.deepEquals(found?.opened.clear, before.clear)) plan.faulty.push(id)
      continue
    }
    const isLost = before.kind === 'unreadable' && hasNewKeys
    const missing = isLost ? 'unreadable' : 'missing'
    const isSame = found?.there.payload === stored.payload
    const kind = found ? compare(before, found.opened, isSame, hasNewKeys) : missing
    if (kind === 'unreadable') plan.unreadable.push(id)
    else if (kind !== 'equal') add(id, id, null, kind)
  }
  for (const [id, target] of findPlaces(saved, current, uniqueKeys.get(collection)!, wanted.overwrites)) {
    const clear = { ...saved.get(id)!, id: target }
    const found = current.get(target)
    const kind = found ? compare({ kind: 'living', clear }, found.opened, false, hasNewKeys) : 'missing'
    if (kind !== 'equal' && kind !== 'unreadable') add(id, target, clear, kind)
  }
  return plan

  function add(id: string, target: string, clear: ClearRecord | null, kind: Write['kind']): void {
    const found = current.get(target)
    if (!isInTime(kind, found?.there, wanted)) return
    const now = found?.opened.clear ?? null
    const differences = kind === 'differs' ? describeDifferences(collection, now, clear) : undefined
    if (differences !== undefined && !wanted.overwrites)
      plan.different.push({ title: recordLabel(collection, clear, target), differences })
    else
      plan.writes.push({
        id: target,
        savedId: id,
        kind,
        version: found?.there.last_modified ?? null,
        ...(clear && target !== id && { clear }),
        differences,
      })
  }
}

type KeyOf = (clear: Fields) => string

/**
 * The id under which each record is restored, by its id in the backup: that of an equal record, else that of the one that Firefox takes for
 * the same, its own one first, else its own id, else one that another record has left free. So a restored backup has only equal records.
 */
function findPlaces(
  saved: ReadonlyMap<string, ClearRecord>,
  current: ReadonlyMap<string, Current>,
  keyOf: KeyOf,
  overwrites: boolean,
): Map<string, string> {
  const live = [...current.values()].flatMap(({ opened }) => (opened.kind === 'living' ? [opened.clear] : []))
  const byId = new Map(live.map((clear) => [clear.id, clear]))
  const byContent = Map.groupBy(live, contentOf)
  const byKey = new Map<string, Map<unknown, ClearRecord[]>>()
  for (const [key, group] of Map.groupBy(live, keyOf))
    if (key !== '')
      byKey.set(
        key,
        Map.groupBy(group, ({ formSubmitURL }) => formSubmitURL),
      )
  const places = new Map<string, string>()
  const taken = new Set<string>()
  const take = (id: string, target: string | undefined) => {
    if (target === undefined || places.has(id) || taken.has(target)) return
    places.set(id, target)
    taken.add(target)
  }
  for (const [id, clear] of saved) {
    const now = byId.get(id)
    if (now && contentOf(now) === contentOf(clear)) take(id, id)
  }
  for (const [id, clear] of saved) take(id, nextOf(byContent.get(contentOf(clear)), taken))
  for (const [id, clear] of saved) {
    const now = byId.get(id)
    if (now && isSame(clear, now, keyOf)) take(id, id)
  }
  for (const [id, clear] of saved) {
    const forms = byKey.get(keyOf(clear))
    const any = textOf(clear.formSubmitURL) === '' ? [...(forms?.keys() ?? [])] : []
    for (const form of [clear.formSubmitURL, '', ...any]) {
      const candidates = forms?.get(form)
      if (overwrites) take(id, nextOf(candidates, taken))
      // Firefox would overwrite it with any of them, so none is missing.
      else if (candidates && !places.has(id)) places.set(id, candidates[0]!.id)
    }
  }
  for (const id of saved.keys()) take(id, id)
  const free = [...saved.keys()].filter((id) => !taken.has(id))
  for (const id of saved.keys()) if (!places.has(id)) take(id, free.pop())
  return places
}

/** Whether Firefox takes two records for the same. An empty form address of a login is equal to any. */
function isSame(one: ClearRecord, other: ClearRecord, keyOf: KeyOf): boolean {
  const [form, otherForm] = [one.formSubmitURL, other.formSubmitURL]
  return (
    keyOf(one) !== '' &&
    keyOf(one) === keyOf(other) &&
    (form === otherForm || form === '' || otherForm === '')
  )
}

/** The last of these records that is not taken; removes the others. */
function nextOf(records: ClearRecord[] = [], taken: ReadonlySet<string>): string | undefined {
  let last = records.at(-1)
  while (last && taken.has(last.id)) {
    records.pop()
    last = records.at(-1)
  }
  return last?.id
}

/** A record without its id, as text. */
function contentOf(clear: ClearRecord): string {
  return JSON.stringify(
    Object.entries({ ...clear, id: null }).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  )
}

interface Current {
  there: StoredRecord
  opened: Opened
}

async function readCurrent({ client, collection, keys }: Source): Promise<Map<string, Current>> {
  const current = new Map<string, Current>()
  for await (const { records } of client.collection(collection).storedPages())
    for (const there of records)
      current.set(there.id, { there, opened: await keys.openRecord(collection, there) })
  return current
}

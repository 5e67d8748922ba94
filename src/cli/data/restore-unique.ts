import { faultOf } from '../../client/engines.ts'
import { textOf, type Fields } from '../../client/fields.ts'
import { describeDifferences } from './differing-fields.ts'
import {
  compare,
  emptyPlan,
  isInTime,
  isWanted,
  nameOf,
  type Plan,
  type Source,
  type Wanted,
} from './restore-plan.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'
import type { Opened } from './record-keys.ts'

/** What Firefox has at most one record for, by collection; an empty string for none. It keeps the one that comes last. */
export const uniqueKeys: ReadonlyMap<string, (clear: Fields) => string> = new Map([
  ['passwords', loginOf],
  ['extension-storage', ({ extId }) => textOf(extId)],
])

function loginOf({ hostname, httpRealm, username }: Fields): string {
  return textOf(hostname) && JSON.stringify([hostname, httpRealm, username])
}

/** The existing record, of those with its key, that Firefox takes for the same. An empty form address of a login is equal to any. */
function sameRecord(existing: ClearRecord[], record: ClearRecord): ClearRecord | undefined {
  const found = existing.filter(({ formSubmitURL: form }) => {
    return form === record.formSubmitURL || form === '' || record.formSubmitURL === ''
  })
  return found.find(({ id }) => id === record.id) ?? found[0]
}

interface Current {
  there: StoredRecord
  opened: Opened
}

/** Plans a collection of `uniqueKeys`: a record that was saved again under another id is the same. */
export async function planUnique(source: Source, wanted: Wanted): Promise<Plan> {
  const { collection, file, savedKeys, keys } = source
  const hasNewKeys = savedKeys.payload !== keys.payload
  const plan = emptyPlan()
  const { current, live } = await readCurrent(source)
  const keyOf = uniqueKeys.get(collection)!
  const existing = Map.groupBy(live.values(), keyOf)
  existing.delete('')
  /** By the id of a record that a restored one replaces: the id of the restored one in the backup, which stays unused. */
  const freed = new Map<string, string>()
  // A record takes the place of one other, even if the backup has several for it.
  const take = (target: string, id: string) => {
    if (target !== id) freed.set(target, id)
    const key = keyOf(live.get(target) ?? {})
    existing.set(key, existing.get(key)?.filter((each) => each.id !== target) ?? [])
  }
  // Missing records come first: one may replace another login's record, and that login then gets the unused id.
  for (const id of [...file.ids].toSorted((one, other) => Number(live.has(one)) - Number(live.has(other)))) {
    if (!isWanted(id, wanted)) continue
    const saved = await file.read(id)
    const isSame = current.get(id)?.there.payload === saved.payload
    if (isSame && !hasNewKeys) continue
    const before = await savedKeys.openRecord(collection, saved)
    if (before.kind === 'deleted') continue
    if (before.clear && faultOf(collection, before.clear) !== null) {
      plan.faulty.push(id)
      continue
    }
    const same = before.clear && sameRecord(existing.get(keyOf(before.clear)) ?? [], before.clear)
    let target = same?.id ?? id
    let free = same ? undefined : freed.get(id)
    while (free !== undefined) {
      freed.delete(target)
      target = free
      free = freed.get(target)
    }
    const found = current.get(target)
    const clear = before.clear && { ...before.clear, id: target }
    const opened = { kind: before.kind, clear } as Opened
    const isLost = before.kind === 'unreadable' && hasNewKeys
    const missing = isLost ? 'unreadable' : 'missing'
    const kind = found ? compare(opened, found.opened, isSame, hasNewKeys) : missing
    if (kind === 'unreadable') plan.unreadable.push(id)
    else if (kind === 'equal') take(target, id)
    else if (isInTime(kind, found?.there, wanted)) {
      const now = found?.opened.clear ?? null
      const differences = kind === 'differs' ? describeDifferences(collection, now, clear) : undefined
      if (differences !== undefined && !wanted.overwrites) {
        plan.different.push({ title: nameOf(collection, clear, target), differences })
        continue
      }
      plan.writes.push({
        id: target,
        savedId: id,
        kind,
        version: found?.there.last_modified ?? null,
        ...(clear && target !== id && { clear }),
        differences,
      })
      take(target, id)
    }
  }
  return plan
}

async function readCurrent({ client, collection, keys }: Source) {
  const current = new Map<string, Current>()
  const live = new Map<string, ClearRecord>()
  for await (const { records } of client.collection(collection).storedPages()) {
    for (const there of records) {
      const opened = await keys.openRecord(collection, there)
      current.set(there.id, { there, opened })
      if (opened.kind === 'living') live.set(there.id, opened.clear)
    }
  }
  return { current, live }
}

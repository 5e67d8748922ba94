import { faultOf } from '../../client/engines.ts'
import { textOf, textsOf, type Fields } from '../../client/fields.ts'
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
  type Write,
} from './restore-plan.ts'
import {
  fitChildren,
  hasOtherType,
  isFolder,
  isMovedFrom,
  keepOrphans,
  keepSharedFields,
  leaveCycles,
  mergeChildren,
  unlistedByFolder,
  type Change,
} from './restored-bookmarks.ts'
import { someOf } from './phrases.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'
import type { Opened } from './record-keys.ts'

/** What Firefox has at most one record for, by collection; an empty string for none. It keeps the one that comes last. */
const uniqueKeys = new Map<string, (clear: Fields) => string>([
  ['passwords', loginOf],
  ['extension-storage', ({ extId }) => textOf(extId)],
])

/** The collections whose records depend on each other. */
export const related = new Set(['bookmarks', ...uniqueKeys.keys()])

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

/** Plans a collection in which a restored record must fit those that are there; keeps its decrypted records in memory. */
export async function planRelated(source: Source, wanted: Wanted): Promise<Plan> {
  const { collection, client, file, savedKeys, keys } = source
  const hasNewKeys = savedKeys.payload !== keys.payload
  const plan = emptyPlan()
  const current = new Map<string, { there: StoredRecord; opened: Opened }>()
  const live = new Map<string, ClearRecord>()
  for await (const { records } of client.collection(collection).storedPages()) {
    for (const there of records) {
      const opened = await keys.openRecord(collection, there)
      current.set(there.id, { there, opened })
      if (opened.kind === 'living') live.set(there.id, opened.clear)
    }
  }
  const keyOf = uniqueKeys.get(collection) ?? (() => '')
  const existing = Map.groupBy(live.values(), keyOf)
  existing.delete('')
  const changes = new Map<string, Change>()
  const kinds = new Map<string, Write['kind']>()
  const retyped: string[] = []
  /** The ids of bookmarks that a folder must list: they exist now, or will after the restore. */
  const ids: string[] = []
  /** By the id of a record that a restored one replaces: the id of the restored one in the backup, which stays unused. */
  const freed = new Map<string, string>()
  // A record takes the place of one other, even if the backup has several for it.
  const take = (target: string, id: string) => {
    if (target !== id) freed.set(target, id)
    const key = keyOf(live.get(target) ?? {})
    existing.set(key, existing.get(key)?.filter((each) => each.id !== target) ?? [])
  }
  // Missing records come first: one may replace another login's record, and that login then gets the unused id.
  const order = [...file.ids].toSorted((one, other) => Number(live.has(one)) - Number(live.has(other)))
  for (const id of uniqueKeys.has(collection) ? order : file.ids) {
    if (!isWanted(id, wanted)) continue
    const saved = await file.read(id)
    const isSame = current.get(id)?.there.payload === saved.payload
    if (isSame && !hasNewKeys) {
      ids.push(id)
      continue
    }
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
    const kind = found
      ? compare(clear ? ({ ...before, clear } as Opened) : before, found.opened, isSame, hasNewKeys)
      : before.kind === 'unreadable' && hasNewKeys
        ? 'unreadable'
        : 'missing'
    if (kind === 'unreadable') {
      plan.unreadable.push(id)
      continue
    }
    if (kind === 'equal') {
      ids.push(id)
      take(target, id)
      continue
    }
    if (!isInTime(kind, found?.there, wanted)) continue
    ids.push(id)
    const now = found?.opened.clear ?? null
    if (kind === 'differs') {
      if (!wanted.overwrites) {
        const differences = describeDifferences(collection, now, clear)
        plan.different.push({ title: nameOf(collection, clear, target), differences })
        continue
      }
      if (collection === 'bookmarks' && now && clear && hasOtherType(now, clear)) {
        retyped.push(id)
        continue
      }
    }
    kinds.set(id, kind)
    changes.set(id, { saved, clear: clear ?? { id: target }, isAdapted: target !== id, there: found?.there })
    take(target, id)
  }
  if (retyped.length > 0)
    plan.problems.push(`not restored, because something of another type has the id now: ${someOf(retyped)}`)
  if (collection === 'bookmarks') await fitTree(source, plan, { changes, kinds, ids, live, current })
  for (const [id, { clear, isAdapted, there }] of changes) {
    const kind = kinds.get(id) ?? 'repaired'
    const write: Write = { id: clear.id, savedId: id, kind, version: there?.last_modified ?? null }
    if (isAdapted) write.clear = clear
    if (kind === 'differs' || kind === 'repaired')
      write.differences = describeDifferences(collection, live.get(clear.id) ?? null, clear)
    plan.writes.push(write)
  }
  // Folders first: after an interruption, Firefox puts bookmarks that no folder lists into Other Bookmarks.
  const isFirst = ({ savedId }: Write) => Number(isFolder(changes.get(savedId)!.clear))
  plan.writes = plan.writes.toSorted((one, other) => isFirst(other) - isFirst(one))
  return plan
}

/** What a restore changes in the tree of bookmarks. */
interface TreeChanges {
  changes: Map<string, Change>
  kinds: ReadonlyMap<string, Write['kind']>
  ids: string[]
  live: ReadonlyMap<string, ClearRecord>
  current: ReadonlyMap<string, { there: StoredRecord }>
}

async function fitTree({ file, savedKeys }: Source, plan: Plan, tree: TreeChanges): Promise<void> {
  const { changes, kinds, ids, live, current } = tree
  const stored = new Map([...current].map(([id, { there }]) => [id, there]))
  const { left, cut } = leaveCycles(changes, live)
  for (const [folder, former] of left) {
    const remedy = `restore that, too, with --id ${former}`
    plan.problems.push(`${folder} is not restored, because its former folder is in it now: ${remedy}`)
  }
  if (cut.length > 0)
    plan.notes.push(`in Other Bookmarks, because the backup has them inside themselves: ${someOf(cut)}`)
  const orphans = new Map<string, number>()
  const moved = keepOrphans(changes, live)
  fitChildren(changes, live)
  // Last, because it adds bookmarks that stay where they are.
  keepSharedFields(changes, live, stored)
  for (const [id, folder] of moved) if (changes.has(id)) orphans.set(folder, (orphans.get(folder) ?? 0) + 1)
  for (const [parentId, children] of unlistedByFolder(changes, ids, live)) {
    const saved = file.has(parentId)
      ? await savedKeys.openRecord('bookmarks', await file.read(parentId))
      : null
    const before = saved?.clear
    const parent = live.get(parentId)
    if (parent?.type === 'folder') {
      const back = new Set(children.map(({ id }) => id))
      const kept = textsOf(parent.children).filter((id) => !isMovedFrom(parentId, changes.get(id)))
      const clear = { ...parent, children: mergeChildren(kept, textsOf(before?.children), back) }
      const there = stored.get(parentId)!
      changes.set(parentId, { saved: there, clear, isAdapted: true, there })
      continue
    }
    const restored = children.filter(({ id }) => kinds.has(id) && changes.has(id)).length
    if (before?.type === 'folder' && restored > 0)
      orphans.set(parentId, (orphans.get(parentId) ?? 0) + restored)
  }
  for (const [folder, children] of orphans) {
    const remedy = `restore it, too, with --id ${folder}`
    plan.notes.push(
      `${children} of them will be in Other Bookmarks, because their folder was deleted: ${remedy}`,
    )
  }
}

import { applyEdits } from './apply-edits.ts'
import { editsBetween } from './edits-between.ts'
import { requestsOf, type RecordWrite } from './edit-requests.ts'
import {
  applyRecordEdits,
  readRecordSet,
  recordEditsBetween,
  recordRequestsOf,
  type RecordSet,
} from './record-edits.ts'
import { below, readTree, type Tree } from './tree.ts'
import type { ReadOptions, SyncRecord } from '../collection.ts'
import type { Edit, Problem, RecordEdit, RemoveEdit } from './edit.ts'

type AnyEdit = Edit | RecordEdit

/** What editing a collection means: bookmarks depend on each other, other records don't. */
export interface Model<State> {
  read(records: Iterable<SyncRecord>): State
  /** Edits with the ids and dates of what they add. */
  complete(edits: readonly AnyEdit[]): AnyEdit[]
  /** Reads what the edits need. */
  load(
    client: RecordSource,
    edits: readonly AnyEdit[],
    signal?: AbortSignal,
  ): Promise<Map<string, SyncRecord>>
  /** `wasStored` as in `applyEdits`. */
  plan(
    state: State,
    edits: readonly AnyEdit[],
    shown: State,
    wasStored?: boolean,
  ): { problems: Problem[]; writes: RecordWrite[] }
  /** Whether edits may be written in several transactions. */
  isDivisible(edits: readonly AnyEdit[]): boolean
  /** The same edits, of which each beginning leaves a valid state. */
  divided(edits: readonly AnyEdit[], state: State, shown: State): readonly AnyEdit[]
  /** The edits that lead back to what was stored. */
  back(shown: State, wanted: State): AnyEdit[]
}

interface RecordSource {
  collection(name: string): { records(options?: ReadOptions): AsyncIterable<SyncRecord> }
}

// oxlint-disable-next-line typescript/no-explicit-any -- a caller passes states only back to the model that made them
export function modelOf(collection: string): Model<any> {
  return collection === 'bookmarks' ? bookmarks : recordsOf(collection)
}

const bookmarks: Model<Tree> = {
  read: readTree,
  complete: (edits) =>
    (edits as Edit[]).map((edit) => {
      if (edit.op !== 'add') return edit
      // Firefox requires it to be no later than the record's timestamp, which has a resolution of 10 ms.
      const addedMs = edit.addedMs ?? (edit.record ? undefined : Date.now() - 1000)
      return { ...edit, addedMs, id: edit.id ?? newId() }
    }),
  load: (client, _, signal) => recordsById(client.collection('bookmarks').records({ signal })),
  plan(tree, edits, shown, wasStored) {
    const applied = applyEdits(tree, edits as Edit[], shown, wasStored)
    return { problems: applied.problems, writes: requestsOf(tree, applied.tree) }
  },
  isDivisible: (edits) => edits.every(({ op }) => op === 'add' || op === 'move'),
  divided: (edits, tree, shown) =>
    (edits as Edit[]).flatMap((edit) => (edit.op === 'remove' ? removalsOf(edit, tree, shown) : [edit])),
  back: (shown, wanted) => editsBetween(shown, wanted, true).filter((edit) => !isStray(edit, shown, wanted)),
}

/**
 * Whether an edit moves what others have put into a new folder: without that, it would be in Other Bookmarks, although its record is the same.
 * It stays, with the folder.
 */
function isStray(edit: Edit, shown: Tree, wanted: Tree): boolean {
  const was = shown.items.get(edit.id!)
  return (
    edit.op === 'move' && was?.parent !== edit.folder && was?.record === wanted.items.get(edit.id)?.record
  )
}

/** The removal of a folder as one of each item, contents first: a folder that is gone before them would leave them to the folder above. */
function removalsOf(edit: RemoveEdit, tree: Tree, shown: Tree): Edit[] {
  const listed = new Set(edit.shown ?? below(shown, edit.id).map(({ id }) => id))
  const inside = below(tree, edit.id).filter(({ id }) => listed.has(id))
  const removals = inside.toReversed().map(({ id, kind }): Edit => {
    const contents = kind === 'folder' ? below(tree, id).map((item) => item.id) : []
    return { op: 'remove', id, shown: contents.filter((each) => listed.has(each)) }
  })
  return [...removals, edit]
}

/** With more ids than this, reading everything is faster. */
const readAllAboveIds = 400

function recordsOf(collection: string): Model<RecordSet> {
  return {
    read: readRecordSet,
    complete: (edits) =>
      (edits as RecordEdit[]).map((edit) =>
        edit.op === 'add' ? { ...edit, id: edit.id ?? newRecordId(collection) } : edit,
      ),
    load(client, edits, signal) {
      const ids = [...new Set(edits.map(({ id }) => id!))]
      const some = ids.length <= readAllAboveIds ? { ids } : {}
      return recordsById(client.collection(collection).records({ ...some, signal }))
    },
    plan(set, edits, shown) {
      const applied = applyRecordEdits(set, edits as RecordEdit[], shown)
      return { problems: applied.problems, writes: recordRequestsOf(set, applied.set) }
    },
    isDivisible: () => true,
    divided: (edits) => edits,
    back: recordEditsBetween,
  }
}

async function recordsById(records: AsyncIterable<SyncRecord>): Promise<Map<string, SyncRecord>> {
  const found = new Map<string, SyncRecord>()
  for await (const record of records) found.set(record.stored.id, record)
  return found
}

/** Creates an id like Firefox: 12 characters of base64url. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9))
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
}

/** Creates an id in the form that Firefox uses in a collection. */
function newRecordId(collection: string): string {
  if (collection === 'passwords') return `{${crypto.randomUUID()}}`
  const isHex = collection === 'addresses' || collection === 'creditcards'
  return isHex ? crypto.randomUUID().replaceAll('-', '').slice(0, 12) : newId()
}

import { applyEdits } from '../../client/edit/apply-edits.ts'
import { modelOf } from '../../client/edit/models.ts'
import { readTree } from '../../client/edit/tree.ts'
import { describeRecord } from '../../client/engines.ts'
import { planOf } from './edit-plan.ts'
import { printableLine } from '../../client/safe-text.ts'
import { partialSuccess } from '../command.ts'
import { writeOut } from '../output.ts'
import { UndoLog } from './undo-store.ts'
import type { Session } from './session.ts'
import type { SyncRecord } from '../../client/collection.ts'
import type { Edit, RecordEdit } from '../../client/edit/edit.ts'

/** A change that a command shows, and makes with `--write`. */
export interface Change {
  collection: string
  edits: (Edit | RecordEdit)[]
  /** The records that the edits were made for. */
  shown: SyncRecord[]
  /** What is stored now; the records of the edits suffice, except for bookmarks. */
  now: readonly SyncRecord[]
}

interface ChangeOptions {
  /** The name of the command. */
  command: string
  write: boolean
  hasUndo: boolean
}

/**
 * Prints what a change would do; with `write`, does it, and says how to take it back. Names what is left as it is because others have changed
 * it: `isWhole` is false then.
 */
export async function showOrMake(
  session: Session,
  change: Change,
  { command, write, hasUndo }: ChangeOptions,
): Promise<{ isWhole: boolean; summary: string }> {
  const { host, tell } = session
  const { collection, edits, shown } = change
  const { lines, summary, problems } = describe(change)
  await writeOut(host, lines.map((line) => `${printableLine(line)}\n`).join(''))
  const result = { isWhole: problems.length === 0, summary }
  if (!write || summary === '') {
    for (const message of problems) tell(message)
    tell(
      summary === ''
        ? 'Nothing to change'
        : `${collection}: ${summary}. Nothing was written. Add --write to write this.`,
    )
    return result
  }
  const log = new UndoLog(session, command, hasUndo)
  const made = await log.save(edits, { collection, shown })
  for (const { message } of made.problems) tell(message)
  tell(`${collection}: ${summary}, on all devices after their next sync`)
  log.finish(made.saved, `${collection}: ${summary}`)
  return { isWhole: made.problems.length === 0, summary }
}

/** What a change would do, without a secret. */
function describe({ collection, edits, shown, now }: Change): {
  lines: string[]
  summary: string
  problems: string[]
} {
  if (collection === 'bookmarks') {
    const tree = readTree(now)
    const applied = applyEdits(tree, edits as Edit[], readTree(shown))
    const problems = applied.problems.map(({ message }) => message)
    return { ...planOf(tree, applied.tree), problems }
  }
  const model = modelOf(collection)
  const records = new Map(now.map((record) => [record.stored.id, record.clear]))
  const { problems, writes } = model.plan(model.read(now), edits, model.read(shown))
  const counts = { added: 0, changed: 0, deleted: 0 }
  const lines = writes.map(({ id, record }) => {
    const before = records.get(id)
    if (record.deleted === true) {
      counts.deleted += 1
      return `- ${describeRecord(collection, before ?? record) || id}`
    }
    if (!before || before.deleted === true) {
      counts.added += 1
      return `+ ${describeRecord(collection, record) || id}`
    }
    counts.changed += 1
    const names = [...new Set([...Object.keys(before), ...Object.keys(record)])]
    const changed = names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(record[name]))
    return `~ ${describeRecord(collection, before) || id}: ${changed.join(', ')}`
  })
  const summary = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([what, count]) => `${count} ${what}`)
    .join(', ')
  return { lines, summary, problems: problems.map(({ message }) => message) }
}

/** Exit code of a command that may have left something. */
export function codeOf(isWhole: boolean): number {
  return isWhole ? 0 : partialSuccess
}

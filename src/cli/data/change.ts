import { applyEdits } from '../../client/edit/apply-edits.ts'
import { modelOf } from '../../client/edit/models.ts'
import { readTree } from '../../client/edit/tree.ts'
import { ClientError } from '../../client/errors.ts'
import { describeRecord } from '../../client/engine-records.ts'
import { planOf } from './edit-plan.ts'
import { doneOf } from './phrases.ts'
import { printableLine } from '../../client/safe-text.ts'
import { partialSuccess } from '../command.ts'
import { writeOut } from '../output.ts'
import { UndoLog } from './undo-log.ts'
import type { Session } from './session.ts'
import type { Host } from '../host.ts'
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
  /** Called when it is interrupted after something may have been written. */
  onPart?(): void
}

/** How far changes were made. */
export interface Made {
  /** Whether nothing was left as it is. */
  isWhole: boolean
  /** Whether anything was written. */
  isWritten: boolean
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
  await printLines(host, lines)
  if (!write || summary === '') return leave(session, [`${collection}: ${summary}`], summary, problems)
  const log = new UndoLog(session, command, hasUndo)
  const made = await log.save(edits, { collection, shown })
  for (const { message } of made.problems) tell(message)
  const done = doneOf(summary, made.problems)
  tell(
    made.saved === null
      ? 'Nothing was written'
      : `${collection}: ${done}, on all devices after their next sync`,
  )
  log.finish(made.saved, `${collection}: ${summary}`)
  return { isWhole: made.problems.length === 0, summary }
}

/** The same for changes that lead back to what was stored; one after the other, because together they are too many. */
export async function showOrMakeAll(
  session: Session,
  changes: AsyncIterable<Change>,
  { command, write, hasUndo, onPart }: ChangeOptions,
): Promise<Made> {
  const { host, tell } = session
  const log = new UndoLog(session, command, write && hasUndo)
  const totals = new Totals()
  const problems: string[] = []
  try {
    for await (const change of changes) {
      const { collection, edits, shown } = change
      const described = describe(change, true)
      await printLines(host, described.lines)
      const isWritten = write && described.summary !== ''
      const made = isWritten ? await log.savePart(edits, { collection, shown, wasStored: true }) : null
      problems.push(...(made ? made.problems.map(({ message }) => message) : described.problems))
      const isLeft = made !== null && made.saved === null
      if (!isLeft) totals.add(collection, described.summary)
    }
  } catch (error) {
    const isWritten = totals.lines.length > 0 || !(error instanceof ClientError) || error.mayBeApplied
    log.end(isWritten ? [...totals.lines, 'interrupted'].join('; ') : '')
    if (isWritten) onPart?.()
    throw error
  }
  const { lines } = totals
  if (!write || lines.length === 0) {
    log.end('')
    leave(session, lines, lines.join(), problems)
    return { isWhole: problems.length === 0, isWritten: false }
  }
  for (const message of problems) tell(message)
  for (const line of lines) tell(`${doneOf(line, problems)}, on all devices after their next sync`)
  log.end(lines.join('; '))
  return { isWhole: problems.length === 0, isWritten: true }
}

function leave({ tell }: Session, lines: string[], summary: string, problems: string[]) {
  for (const message of problems) tell(message)
  if (summary === '') tell('Nothing to change')
  else for (const line of lines) tell(`${line}. Nothing was written. Add --write to write this.`)
  return { isWhole: problems.length === 0, summary }
}

async function printLines(host: Host, lines: string[]): Promise<void> {
  await writeOut(host, lines.map((line) => `${printableLine(line)}\n`).join(''))
}

/** Sums summaries, such as "2 added, 1 deleted", by collection. */
class Totals {
  readonly #counts = new Map<string, Map<string, number>>()

  add(collection: string, summary: string): void {
    if (summary === '') return
    const counts = this.#counts.getOrInsertComputed(collection, () => new Map())
    for (const part of summary.split(', ')) {
      const [count, ...words] = part.split(' ')
      const what = words.join(' ')
      counts.set(what, (counts.get(what) ?? 0) + Number(count))
    }
  }

  /** One for each collection. */
  get lines(): string[] {
    return [...this.#counts].map(([collection, counts]) => {
      const parts = [...counts].map(([what, count]) => `${count} ${what}`)
      return `${collection}: ${parts.join(', ')}`
    })
  }
}

/** What a change would do, without a secret. */
function describe(
  { collection, edits, shown, now }: Change,
  wasStored = false,
): { lines: string[]; summary: string; problems: string[] } {
  if (collection === 'bookmarks') {
    const tree = readTree(now)
    const applied = applyEdits(tree, edits as Edit[], readTree(shown), wasStored)
    const problems = applied.problems.map(({ message }) => message)
    return { ...planOf(tree, applied.tree, wasStored), problems }
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

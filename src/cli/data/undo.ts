import { modelOf } from '../../client/edit/models.ts'
import { undoing, undoSteps } from '../../client/edit/saved.ts'
import { ClientError } from '../../client/errors.ts'
import { Argument, UsageError, wholeNumber, type CommandFactory } from '../command.ts'
import { firefoxCollections } from '../../settings/schema.ts'
import { print } from '../output.ts'
import { codeOf, showOrMakeAll, type Change } from './change.ts'
import { minuteOf } from './dates.ts'
import { describeAccountCommand, noUndoOption } from './options.ts'
import { countOf, someOf } from './phrases.ts'
import { withAccount, type Session } from './session.ts'
import { markUndone, readEntries, type UndoEntry } from './undo-entries.ts'

export const undoCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'undo',
    'show what taking back a command would change; with --write, take it back',
    'Without NUMBER: the last command that was not taken back. What was changed since stays, and is named. Keeps the last 20 commands in ' +
      `~/.local/state/sync-bridge, encrypted as they were stored.`,
  )
    .addArgument(
      new Argument('[NUMBER]', 'the command, as --list shows it').argParser(wholeNumber(1, 999_999_999)),
    )
    .option('--list', 'list the commands that can be taken back')
    .option('--write', 'take it back')
    .addOption(noUndoOption)
    .action(
      perform((host, number, { list = false, write = false, undo, ...given }) => {
        if (list && (write || number !== undefined))
          throw new UsageError('--list takes neither NUMBER nor --write')
        return withAccount(given, host, { writes: write ? firefoxCollections : [] }, async (session) => {
          const entries = readEntries(session.client.account, host)
          return list
            ? listEntries(session, entries)
            : takeBack(session, chosen(entries, number), write, undo)
        })
      }),
    )

function listEntries({ host }: Session, entries: UndoEntry[]): Promise<number> {
  const lines = entries.map(({ number, command, summary, atMs, isUndone, isPartlyUndone }) => {
    const state = isPartlyUndone ? ' (taken back in part)' : isUndone ? ' (taken back)' : ''
    return `${String(number).padStart(4)}  ${minuteOf(atMs)}  ${command.padEnd(7)}  ${summary || 'interrupted'}${state}\n`
  })
  return print(host, lines.join(''))
}

function chosen(entries: UndoEntry[], number: number | undefined): UndoEntry {
  const found =
    number === undefined
      ? entries.findLast(({ isUndone, command }) => !isUndone && command !== 'undo')
      : entries.find((entry) => entry.number === number)
  if (found) return found
  throw new ClientError(
    number === undefined
      ? 'There is nothing to take back for this account'
      : `There is no command ${number}: "sync-bridge undo --list" shows them`,
  )
}

async function takeBack(
  session: Session,
  entry: UndoEntry,
  write: boolean,
  hasUndo: boolean,
): Promise<number> {
  const { client, host, tell } = session
  const { number, command, summary, atMs } = entry
  tell(`${number}: ${command}, ${minuteOf(atMs)}${summary && `, ${summary}`}`)
  const unreadable: string[] = []
  async function* changes(): AsyncGenerator<Change> {
    for (const saved of undoSteps(entry.saved)) {
      const { collection } = saved
      const undone = await undoing(client, saved)
      unreadable.push(...undone.unreadable)
      const now = await modelOf(collection).load(client, undone.edits)
      yield { collection, edits: undone.edits, shown: undone.shown, now: [...now.values()] }
    }
  }
  const mark = (isUndone: boolean, isPartlyUndone: boolean) =>
    markUndone(client.account, entry, { isUndone, isPartlyUndone }, host)
  // The next undo continues it.
  const onPart = () => mark(false, true)
  const made = await showOrMakeAll(session, changes(), { command: 'undo', write, hasUndo, onPart })
  if (unreadable.length > 0)
    tell(
      `${countOf(unreadable.length, 'record')} ${unreadable.length === 1 ? 'stays, because the key does not decrypt it' : 'stay, because the key does not decrypt them'}: ${someOf(unreadable)}`,
    )
  const isWhole = made.isWhole && unreadable.length === 0
  if (write && (isWhole || made.isWritten)) mark(true, !isWhole)
  else if (write) tell(`${number} was not taken back: "sync-bridge undo --list" shows those before it`)
  return codeOf(isWhole)
}

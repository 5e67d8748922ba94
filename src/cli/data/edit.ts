import { readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { applyEdits } from '../../client/edit/apply-edits.ts'
import { isRoot, type Edit } from '../../client/edit/edit.ts'
import { editsBetween } from '../../client/edit/edits-between.ts'
import { inOrder } from '../../client/edit/order.ts'
import { below, folderCalled, readTree, type Item, type Tree } from '../../client/edit/tree.ts'
import { rootTitles } from '../../client/bookmark-places.ts'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { Option, partialSuccess, UsageError, wholeNumber, type CommandFactory } from '../command.ts'
import { print as printOut } from '../output.ts'
import { createPrivateFolder } from '../private-file.ts'
import { childEnvironment } from './child-environment.ts'
import { askLine, isConfirmed, readInput, readText } from './ask.ts'
import { planOf, planText, type EditPlan } from './edit-plan.ts'
import { formatBookmarks, lineTextOf, parseBookmarks, printedIn, TextError } from './edit-text.ts'
import { describeAccountCommand, folderOption, noUndoOption } from './options.ts'
import { countOf, doneOf } from './phrases.ts'
import { withAccount, type Session } from './session.ts'
import { neverSaved, noteDraft, takeAbandonedEdits } from './drafts.ts'
import type { PrintedLines } from './printed-lines.ts'
import { UndoLog } from './undo-log.ts'
import type { SyncRecord } from '../../client/collection.ts'

export const editCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'edit',
    'edit your bookmarks as lines of text in your editor',
    'Opens $VISUAL or $EDITOR, shows what would change, and asks. What other devices change meanwhile stays. ' +
      'Scripts print the lines with --print, and give them back with --file.',
  )
    .addOption(folderOption('only this folder, by title or id, with its contents'))
    .option('--print', 'print the lines, and end')
    .option('--file <FILE>', 'read the edited lines from this file; - is standard input')
    .option('-y, --yes', 'do not ask; refuses to delete more than a third')
    .addOption(
      new Option('--delete <N>', 'with --yes: delete exactly this many, even more than a third').argParser(
        wholeNumber(0, 1_000_000),
      ),
    )
    .addOption(noUndoOption)
    .action(
      perform((host, options) => {
        const { folder, print = false, file, yes = false, delete: deletes, undo, ...given } = options
        if (print && file !== undefined) throw new UsageError('Use either --print or --file')
        if (deletes !== undefined && !yes) throw new UsageError('Use --delete only with --yes')
        return withAccount(given, host, { writes: print ? [] : ['bookmarks'] }, async (session) => {
          for (const path of takeAbandonedEdits(host))
            session.tell(`An edit was interrupted. ${keptLines(path)}`)
          const shown = await readShown(session, folder)
          if (print) return printOut(host, formatBookmarks(shown.tree, shown.folder, shown.asOfMs))
          const log = new UndoLog(session, 'edit', undo)
          const settings = { yes, deletes, log }
          return file === undefined
            ? editInEditor(session, shown, settings)
            : editFromFile(session, shown, settings, file)
        })
      }),
    )

/** The bookmarks that an edit begins with. */
interface Shown {
  records: SyncRecord[]
  tree: Tree
  /** The only folder to edit, or null. */
  folder: Item | null
  /** The timestamp of the collection. */
  asOfMs: number
}

interface Settings {
  yes: boolean
  deletes: number | undefined
  log: UndoLog
}

async function readShown({ client }: Session, folder: string | undefined): Promise<Shown> {
  const records: SyncRecord[] = []
  let asOfMs = 0
  for await (const page of client.collection('bookmarks').pages()) {
    records.push(...page.records)
    asOfMs = page.lastModified
  }
  const tree = readTree(records)
  return { records, tree, folder: folder === undefined ? null : folderCalled(tree, folder), asOfMs }
}

/** The exit code if the answer is no. */
const declined = 1

/** How often a file with errors is opened again. */
const maxAttempts = 10

/** Opens an editor until its file can be read, and applies it. The file is kept if it could not be saved. */
async function editInEditor(session: Session, shown: Shown, settings: Settings): Promise<number> {
  const { path, remove } = orUnwritable(tmpdir(), () => createPrivateFolder('bookmarks.txt'))
  let isDone = false
  const note = noteDraft(path, session.host.environment)
  try {
    let text = formatBookmarks(shown.tree, shown.folder, shown.asOfMs)
    const printed = printedIn(text)!
    for (let attempts = 1; ; attempts += 1) {
      orUnwritable(path, () => writeFileSync(path, text, { mode: 0o600 }))
      utimesSync(path, neverSaved, neverSaved)
      await runEditor(session, path)
      const edited = readGiven(path)
      try {
        const code = await apply(session, shown, settings, readEdits(edited, shown, printed, settings.log))
        // After a no, the lines are kept for another try.
        isDone = code !== declined
        return code
      } catch (error) {
        if (!(error instanceof TextError)) throw error
        // A program that repeats its error would be run forever.
        if (edited === text || attempts === maxAttempts)
          throw new ClientError(`Nothing was changed: ${error.message}`)
        text = `# ERROR in ${error.message}. Correct it, or empty the file to give up.\n${withoutError(edited)}`
      }
    }
  } finally {
    const isChanged = !isDone && readIfAny(path) !== formatBookmarks(shown.tree, shown.folder, shown.asOfMs)
    if (isChanged && withoutComments(readIfAny(path)) !== '') session.tell(keptLines(path))
    else remove()
    if (note !== null) rmSync(note, { force: true })
  }
}

/** Throws `ClientError` if the file can't be written. */
function orUnwritable<Result>(path: string, write: () => Result): Result {
  try {
    return write()
  } catch (error) {
    throw new ClientError(`Nothing was changed: cannot write ${path} (${reasonOf(error)})`)
  }
}

function keptLines(path: string): string {
  return `Your lines are kept in ${path}: continue with "sync-bridge edit --file ${path}"`
}

function readIfAny(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function withoutError(text: string): string {
  return text.replace(/^# ERROR in [^\n]*\n/, '')
}

function withoutComments(text: string): string {
  return text
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('')
    .trim()
}

/** Runs the user's editor as git does. Rejects with `ClientError` if it fails. */
async function runEditor({ host }: Session, path: string): Promise<void> {
  const { VISUAL, EDITOR } = host.environment
  const editor = VISUAL || EDITOR || 'vi'
  // Ctrl+C belongs to the editor.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  try {
    const stdio: ['inherit', 'inherit', 'inherit'] = ['inherit', 'inherit', 'inherit']
    const child = Bun.spawn(['sh', '-c', `${editor} "$@"`, editor, path], {
      stdio,
      env: childEnvironment(host.environment),
    })
    const code = await child.exited
    if (code !== 0)
      throw new ClientError(`Nothing was changed: the editor ${JSON.stringify(editor)} ended with ${code}`)
  } finally {
    process.off('SIGINT', ignore)
  }
}

async function editFromFile(
  session: Session,
  shown: Shown,
  settings: Settings,
  file: string,
): Promise<number> {
  const text = file === '-' ? await readInput(session.host) : readGiven(resolve(session.host.cwd, file))
  try {
    const printed = printedIn(text)
    if (text.trim() === '') throw new ClientError(emptyFile)
    if (printed === null)
      throw new ClientError(
        'The lines do not say when they were printed: keep the line "# As of …" of --print',
      )
    const wish = keepNewer(readEdits(text, shown, printed, settings.log), shown, printed)
    return await apply(session, shown, settings, wish)
  } catch (error) {
    if (!(error instanceof TextError)) throw error
    throw new ClientError(`Nothing was changed: ${file === '-' ? 'standard input' : file}, ${error.message}`)
  }
}

function readGiven(path: string): string {
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch (error) {
    throw new ClientError(`Cannot read ${path} (${reasonOf(error)})`)
  }
  return readText(bytes, path)
}

/** What the edited lines want. */
interface Wish {
  edits: Edit[]
  /** The ids of the marks in each folder, in order. */
  contents: ReadonlyMap<string, readonly string[]>
  /** What was not taken from the lines, as sentences. */
  left: string[]
}

/** Reads the lines. Throws `TextError` if one can't be read or Firefox would not keep it, and `ClientError` if there is none. */
function readEdits(text: string, { tree, folder }: Shown, printed: PrintedLines, log: UndoLog): Wish {
  // A text says when it was printed, so the same one is the same edit, and adds nothing twice.
  const knownIds = log.resume(text, { isOnce: true })
  const wanted = parseBookmarks(text, tree, folder, printed, knownIds)
  if (wanted === null) throw new ClientError(emptyFile)
  log.adds(wanted.newIds)
  const edits = editsBetween(tree, wanted)
  const invalid = applyEdits(tree, edits).problems.find(({ code }) => code === 'invalid')
  if (invalid) throw new TextError(wanted.lineOf.get(invalid.id) ?? 0, invalid.message)
  return { edits, contents: wanted.contents, left: wanted.gone }
}

const emptyFile = 'Nothing was changed: the file is empty'

/** Without the edits of what other devices have changed, moved or added since the lines were printed; names those that lines ask for. */
function keepNewer(wish: Wish, { tree }: Shown, printed: PrintedLines): Wish {
  const isChanged = (item: Item) => !printed.hasText(item.id, lineTextOf(item))
  const isMoved = ({ id, parent }: Item) => !isRoot({ parent }) && printed.placeIn(parent, id) === undefined
  const isAsPrinted = (id: string) => !isChanged(tree.items.get(id)!) && !isMoved(tree.items.get(id)!)
  const unmoved = new Map<string, Set<string>>()
  const unmovedIn = (folder: string) =>
    unmoved.getOrInsertComputed(folder, () =>
      inOrder(wish.contents.get(folder) ?? [], (id) => printed.placeIn(folder, id)),
    )
  const left = new Set<string>()
  const edits = wish.edits.flatMap((edit): Edit[] => {
    if (edit.op === 'add') return [edit]
    const { id } = edit
    const item = tree.items.get(id)!
    if (edit.op === 'remove' && !printed.has(id)) return []
    // The line is where it was: another device has moved the item.
    if (edit.op === 'move' && printed.placeIn(edit.folder, id) !== undefined)
      return item.parent !== edit.folder || unmovedIn(edit.folder).has(id) ? [] : [edit]
    const isNewer =
      edit.op === 'change' ? isChanged(item) : edit.op === 'move' ? isMoved(item) : !isAsPrinted(id)
    if (isNewer) left.add(id)
    if (isNewer) return []
    // Without what was not shown, it keeps the folders of that.
    return edit.op === 'remove' ? [{ ...edit, shown: edit.shown!.filter(isAsPrinted) }] : [edit]
  })
  const sentences = [...left].map((id) => {
    const { title, address } = tree.items.get(id)!
    return `${JSON.stringify(title || address)} was changed by another device since the lines were printed: it stays`
  })
  return { ...wish, edits, left: [...wish.left, ...sentences] }
}

/** Shows the plan, asks, and saves. */
async function apply(session: Session, shown: Shown, settings: Settings, wish: Wish): Promise<number> {
  const { tell } = session
  const before = applyEdits(shown.tree, wish.edits)
  const plan = planOf(shown.tree, before.tree)
  for (const line of [...wish.left, ...before.problems.map(({ message }) => message)]) tell(line)
  const isLeft = wish.left.length > 0
  if (plan.summary === '') {
    tell('Nothing to change')
    return isLeft ? partialSuccess : 0
  }
  tell(planText(plan).trimEnd())
  if (!isWanted(plan, countOfItems(shown), settings)) {
    tell('Nothing was written')
    return declined
  }
  const { log } = settings
  const { problems, saved } = await log.save(wish.edits, { shown: shown.records })
  for (const { message } of problems) tell(message)
  tell(saved === null ? 'Nothing was written' : `Saved: ${doneOf(plan.summary, problems)}`)
  log.finish(saved, plan.summary)
  return problems.length > 0 || isLeft ? partialSuccess : 0
}

function countOfItems({ tree, folder }: Shown): number {
  const tops = folder ? [folder.id] : [...rootTitles.keys()]
  return tops.reduce((count, id) => count + below(tree, id).length, 0)
}

/** Asks, twice if more than a third would be deleted. Throws `ClientError` without a terminal, or if `--yes` does not cover it. */
function isWanted({ deleted }: EditPlan, total: number, { yes, deletes }: Settings): boolean {
  const isMass = deleted > total / 3
  if (yes && deletes !== undefined && deletes !== deleted)
    throw new ClientError(`Nothing was written: this deletes ${deleted}, and --delete says ${deletes}`)
  if (yes && isMass && deletes === undefined)
    throw new ClientError(
      `Nothing was written: this deletes ${deleted} of ${total}. Add --delete ${deleted} if that is right`,
    )
  if (yes) return true
  const remedy = 'Use --yes to save without asking'
  if (!isConfirmed('Save this?', remedy)) return false
  if (!isMass) return true
  const question = `This deletes ${deleted} of ${countOf(total, 'item')}. Write the number ${deleted} to confirm: `
  return askLine(question, remedy) === String(deleted)
}

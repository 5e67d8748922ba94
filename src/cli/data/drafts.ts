/**
 * Files that decrypted data is written to before it is complete. A note says where each one is, so that the next command removes those of a
 * process that was killed.
 */
import { randomUUID } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { stateFolder } from './user-folders.ts'
import type { Host } from '../host.ts'

export type DraftHost = Pick<Host, 'environment'>

/** A new path for the draft of a file, beside it: not its own name, which may already have the maximum length. */
export function draftFor(file: string): string {
  return join(dirname(resolve(file)), `.sync-bridge-${randomUUID()}`)
}

const draftName = /^\.sync-bridge-[\da-f-]{36}$/
const dayMs = 86_400_000

/** The folder with a note for each draft; null without a home. */
function notesFolder(environment: DraftHost['environment']): string | null {
  const state = stateFolder(environment)
  return state && join(state, 'drafts')
}

/** The beginning of the notes of this machine, which is followed by the id of the process. */
const ofThisMachine = () => `${hostname().replaceAll(/[^\w.]/g, '_')}-`

/** The file of an editor, which has a folder of its own. */
const editorFile = /\/sync-bridge-\w{6}\/bookmarks\.txt$/
/** The time of such a file that no editor has saved. */
export const neverSaved = new Date(0)

/** Notes where a draft is, before it exists. Returns the note; null if there is no place for it. */
export function noteDraft(draft: string, environment: DraftHost['environment']): string | null {
  const folder = notesFolder(environment)
  if (folder === null) return null
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const note = join(folder, `${ofThisMachine()}${process.pid}-${randomUUID()}`)
    writeFileSync(note, draft, { mode: 0o600 })
    return note
  } catch {
    return null
  }
}

/**
 * Removes the drafts of processes that were killed, wherever they are; those of other machines, and those of programs beside the account
 * file, after a day. What a user has saved in an editor stays for `takeAbandonedEdits`.
 */
export function removeAbandonedDrafts(accountFile: string, host: DraftHost & Pick<Host, 'now'>): void {
  forEachAbandoned(host, (draft, note) => {
    // Nothing else, whatever the note says.
    if (draftName.test(basename(draft))) rmSync(draft, { force: true })
    else if (editorFile.test(draft)) {
      if (isSaved(draft)) return
      rmSync(dirname(draft), { recursive: true, force: true })
    }
    rmSync(note)
  })
  forEachIn(dirname(targetOf(accountFile)), (path) => {
    if (draftName.test(basename(path)) && isOld(path, host)) rmSync(path)
  })
}

/** The files that a user has saved in an editor, but whose process was killed before it read them. Each is returned once. */
export function takeAbandonedEdits(host: DraftHost & Pick<Host, 'now'>): string[] {
  const found: string[] = []
  forEachAbandoned(host, (draft, note) => {
    if (!editorFile.test(draft) || !isSaved(draft)) return
    found.push(draft)
    rmSync(note)
  })
  return found
}

function isSaved(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found !== undefined && found.mtimeMs !== neverSaved.getTime()
}

function isOld(path: string, { now }: Pick<Host, 'now'>): boolean {
  return now() - statSync(path).mtimeMs > dayMs
}

/** Acts on each draft whose process is gone, and on its note. */
function forEachAbandoned(
  host: DraftHost & Pick<Host, 'now'>,
  act: (draft: string, note: string) => void,
): void {
  forEachIn(notesFolder(host.environment), (note) => {
    const name = basename(note)
    const pid = name.startsWith(ofThisMachine()) ? parseInt(name.slice(ofThisMachine().length), 10) : NaN
    if (Number.isNaN(pid) ? isOld(note, host) : !isOtherProcess(pid)) act(readFileSync(note, 'utf8'), note)
  })
}

function forEachIn(folder: string | null, act: (path: string) => void): void {
  if (folder === null || !existsSync(folder)) return
  for (const name of readdirSync(folder)) {
    try {
      act(join(folder, name))
    } catch {
      // Another process has removed it, or the next one will.
    }
  }
}

/** Whether this is another process that runs. This one writes no draft yet, but in a container an earlier one had the same id. */
function isOtherProcess(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return pid !== process.pid
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Follows a symbolic link, also to a file that does not exist yet. */
export function targetOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()
    return isLink ? resolve(dirname(path), readlinkSync(path)) : path
  }
}

import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { draftFor, noteDraft, targetOf, type DraftHost } from './drafts.ts'

/**
 * Replaces a file atomically, readable only for its owner. Syncs the contents before the rename, so that a power failure leaves no empty
 * file. Devices and pipes are opened and written to; a file that is already open continues after what other programs wrote to it. A draft
 * that is left behind, because the process was killed, is removed by `removeAbandonedDrafts`.
 */
export function writeWhole(path: string, parts: Iterable<string>, host: DraftHost): void {
  const file = openWhole(path, host)
  try {
    for (const part of parts) file.write(part)
    file.finish()
  } catch (error) {
    file.abandon()
    throw error
  }
}

/** The same for parts that arrive. */
export async function streamWhole(
  path: string,
  parts: AsyncIterable<string>,
  host: DraftHost,
): Promise<void> {
  const file = openWhole(path, host)
  try {
    for await (const part of parts) file.write(part)
    file.finish()
  } catch (error) {
    file.abandon()
    throw error
  }
}

/** A file that is being replaced. */
interface WholeFile {
  write(text: string): void
  /** Puts it in place. */
  finish(): void
  /** Leaves the former file as it is. */
  abandon(): void
}

/** The paths of files that are already open, such as standard output. */
const openFile = /^(?:\/dev\/stdout|\/(?:dev|proc\/self)\/fd\/(\d+))$/

function openWhole(path: string, { environment }: DraftHost): WholeFile {
  const opened = openFile.exec(path)
  // Renaming would replace a device, such as /dev/null, with a file.
  if (opened || isSpecial(path)) {
    const file = opened ? Number(opened[1] ?? 1) : openSync(path, 'w')
    return {
      write: (text) => writeText(file, text),
      finish: () => closeSync(file),
      abandon: () => closeSync(file),
    }
  }
  const target = targetOf(path)
  const draft = draftFor(target)
  const note = noteDraft(draft, environment)
  const remove = (...paths: (string | null)[]) => {
    for (const each of paths) if (each !== null) rmSync(each, { force: true })
  }
  let file: number
  try {
    file = openSync(draft, 'wx', 0o600)
  } catch (error) {
    remove(note)
    throw error
  }
  return {
    write: (text) => writeText(file, text),
    finish() {
      fsyncSync(file)
      renameSync(draft, target)
      closeSync(file)
      remove(note)
    },
    abandon() {
      closeSync(file)
      remove(draft, note)
    },
  }
}

function writeText(file: number, text: string): void {
  const bytes = Buffer.from(text)
  for (let written = 0; written < bytes.length;) written += writeSync(file, bytes, written)
}

/** Whether the path exists and is not a regular file. */
export function isSpecial(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === false
}

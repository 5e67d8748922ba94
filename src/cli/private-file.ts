import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A file in a new temporary folder that only this user can read. */
export interface PrivateFile {
  path: string
  /** Removes the file and its folder. */
  remove(): void
}

/** Writes a private file; its text may contain its path. Null if that fails. */
export function writePrivateFile(name: string, textAt: (path: string) => string): PrivateFile | null {
  try {
    const file = createPrivateFolder(name)
    writeFileSync(file.path, textAt(file.path), { mode: 0o600 })
    return file
  } catch {
    return null
  }
}

/** The folder of a private file that is still to be written. Throws if it can't be created. */
export function createPrivateFolder(name: string): PrivateFile {
  const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-'))
  return { path: join(folder, name), remove: () => rmSync(folder, { recursive: true, force: true }) }
}

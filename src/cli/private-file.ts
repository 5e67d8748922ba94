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
    const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-'))
    const path = join(folder, name)
    writeFileSync(path, textAt(path), { mode: 0o600 })
    return { path, remove: () => rmSync(folder, { recursive: true, force: true }) }
  } catch {
    return null
  }
}

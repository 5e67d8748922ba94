import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { printableLine } from '../../client/safe-text.ts'
import { partialSuccess } from '../command.ts'
import { writeOut } from '../output.ts'
import { digestOf, fileOf, readBackups, type Backup } from './backup-folder.ts'
import { Progress } from './progress.ts'
import type { Host } from '../host.ts'

/**
 * Lists the backups in a folder, oldest first: name, records, size, and whether it is complete, or why not. Reads every file; needs no account.
 * The exit code is 3 if one is damaged.
 */
export async function listBackups(folder: string, host: Host): Promise<number> {
  const progress = new Progress(host)
  const { backups, damaged } = await readBackups(folder)
  const buckets = new Set(backups.map(({ state }) => state.bucket))
  const digests = new Map<string, string | null>()
  const rows: string[][] = []
  let isWhole = damaged.length === 0
  for (const backup of backups) {
    const { name, state } = backup
    progress.show(`${name}: checking`)
    const { bytes, damagedFiles } = await inspect(backup, digests)
    isWhole &&= damagedFiles.length === 0
    const records = [...state.collections.values()].reduce((sum, saved) => sum + saved.records, 0)
    const account = buckets.size > 1 ? [`account ${state.bucket.slice(0, 8)}`] : []
    rows.push([name, `${records} records`, sizeOf(bytes), ...account, verdictOf(backup, damagedFiles)])
  }
  for (const { path, reason } of damaged) rows.push([path, `damaged: ${reason}`])
  progress.clear()
  await writeOut(host, rows.map((cells) => `${cells.map(printableLine).join('  ')}\n`).join(''))
  return isWhole ? 0 : partialSuccess
}

function verdictOf({ isComplete, state }: Backup, damagedFiles: string[]): string {
  if (damagedFiles.length > 0) return `damaged: ${damagedFiles.join(', ')}`
  return isComplete ? 'complete' : `incomplete: ${state.problems.join('; ')}`
}

/** The size of a backup, and its damaged collections; a file that several backups share is read once. */
async function inspect(
  { path, state }: Backup,
  digests: Map<string, string | null>,
): Promise<{ bytes: number; damagedFiles: string[] }> {
  let bytes = 0
  const damagedFiles: string[] = []
  for (const [name, { sha256 }] of state.collections) {
    const file = join(path, fileOf(name))
    const found = await stat(file).catch(() => null)
    bytes += found?.size ?? 0
    const key = `${found?.dev}:${found?.ino}`
    if (found && !digests.has(key)) digests.set(key, await digestOf(file))
    if (!found || digests.get(key) !== sha256) damagedFiles.push(fileOf(name))
  }
  return { bytes, damagedFiles }
}

function sizeOf(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}

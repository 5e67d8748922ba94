import { rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { copyCollection, fileOf, isIntact, readRecords, type Backup } from './backup-folder.ts'
import { RecordKeys } from './record-keys.ts'

/**
 * The backups of an account that go when a complete one is made: those older than the last `keep` complete ones, and incomplete ones of which
 * the new one has every living record.
 */
export async function findOutdated(
  earlier: readonly Backup[],
  made: Backup,
  keep: number,
  syncKey: string,
): Promise<Backup[]> {
  const oldest = [...earlier.filter(({ isComplete }) => isComplete), made].at(-keep)
  const outdated: Backup[] = []
  for (const backup of earlier) {
    const isOld = oldest !== undefined && backup.state.sequence < oldest.state.sequence
    if (isOld || (!backup.isComplete && (await hasAllOf(made, backup, syncKey)))) outdated.push(backup)
  }
  return outdated
}

/** Whether a backup has every living record of another one. */
async function hasAllOf(made: Backup, other: Backup, syncKey: string): Promise<boolean> {
  try {
    const keys = await RecordKeys.read(made.path, syncKey)
    // An incomplete one may have no keys.
    const otherKeys = await RecordKeys.read(other.path, syncKey).catch(() => keys)
    for (const [name, { sha256 }] of other.state.collections) {
      const saved = made.state.collections.get(name)
      if (saved?.sha256 === sha256) continue
      const living = new Set<string>()
      for await (const records of saved ? readRecords(made.path, name) : [])
        for (const record of records)
          if ((await keys.kindOf(name, record)) !== 'deleted') living.add(record.id)
      for await (const records of readRecords(other.path, name))
        for (const record of records)
          if (!living.has(record.id) && (await otherKeys.kindOf(name, record)) !== 'deleted') return false
    }
    return true
  } catch {
    // It can't be read, so it may have more.
    return false
  }
}

/**
 * Replaces the linked files of a backup by copies where all others that stay share one file with it, or have a damaged one: one bad sector
 * would destroy what seem to be many copies.
 */
export async function ensureTwoCopies(made: Backup, others: readonly Backup[]): Promise<void> {
  for (const name of made.state.collections.keys()) {
    if (!(await isOnlyCopy(made, name, others))) continue
    const copy = join(made.path, fileOf(`${name}~`))
    await copyCollection(made, name, copy)
    await rename(copy, join(made.path, fileOf(name)))
  }
}

/** Whether a backup shares a file with others, of which none has an intact one of its own. */
async function isOnlyCopy(made: Backup, name: string, others: readonly Backup[]): Promise<boolean> {
  const inodeOf = async ({ path }: Backup) => (await stat(join(path, fileOf(name))).catch(() => null))?.ino
  const own = await inodeOf(made)
  const checked = new Set<number | undefined>([undefined])
  let isShared = false
  for (const other of others.toReversed()) {
    if (other.state.collections.get(name)?.sha256 !== made.state.collections.get(name)!.sha256) continue
    const inode = await inodeOf(other)
    if (inode === own) isShared = true
    else if (!checked.has(inode) && (await isIntact(other, name))) return false
    checked.add(inode)
  }
  return isShared
}

/** Removes backups. */
export async function removeBackups(backups: readonly Backup[]): Promise<void> {
  for (const { path } of backups) await rm(path, { recursive: true, force: true })
}

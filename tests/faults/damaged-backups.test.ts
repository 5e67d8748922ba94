import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clearRecordsOf, encrypted } from '../support/records.ts'
import { Chance } from '../fuzz/chance.ts'
import { startBackupWorld } from '../cli/data/backup-world.ts'
import type { ClearRecord } from '../../src/client/crypto.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const { sandbox, someone, run, writeForms, stop } = await startBackupWorld()
afterAll(stop)

/** `DAMAGE_RUNS=200` for all of them. */
const runs = Number(process.env.DAMAGE_RUNS ?? 12)
const seed = Number(process.env.DAMAGE_SEED ?? 1)
/** Those that the bridge lets it write. */
const collections = ['bookmarks', 'passwords', 'forms']

/** All records of a user by path; null for one that the key does not open. */
async function contentOf(user: SandboxUser): Promise<Map<string, ClearRecord | null>> {
  const found = new Map<string, ClearRecord | null>()
  for (const name of collections)
    for (const [id, record] of await clearRecordsOf(sandbox, user, name)) found.set(`${name}/${id}`, record)
  return found
}

/** Damages a random file of a backup. */
function damage(backup: string, foreign: string, draw: (below: number) => number): string {
  const files = readdirSync(backup)
  const name = files[draw(files.length)]!
  const file = join(backup, name)
  const bytes = readFileSync(file)
  const kind = ['flip', 'cut', 'missing', 'foreign', 'swapped'][draw(5)]!
  const at = draw(bytes.length)
  if (kind === 'flip') {
    bytes[at]! ^= 1 << draw(8)
    writeFileSync(file, bytes)
  } else if (kind === 'cut') truncateSync(file, at)
  else if (kind === 'missing') rmSync(file)
  else if (kind === 'foreign') writeFileSync(file, readFileSync(join(foreign, name)))
  else {
    const other = join(backup, files[draw(files.length)]!)
    renameSync(file, `${file}~`)
    if (other !== file) renameSync(other, file)
    renameSync(`${file}~`, other)
  }
  return `${kind} ${name}`
}

/** What must not get lost of a record. A bookmark may be in a folder that is there again, or list what came back. */
function essenceOf(path: string, clear: ClearRecord | null | undefined): string {
  if (!clear || !path.startsWith('bookmarks/')) return JSON.stringify(clear ?? null)
  const { type, title, bmkUri, tags } = clear
  return JSON.stringify({ type, title, bmkUri, tags })
}

describe('a restore of a damaged backup', () => {
  it('never makes the account worse, and never says that all is well when something is missing', async () => {
    const { user: stranger, folder: strange } = someone('stranger')
    await run(stranger, ['backup', strange])
    const foreign = join(strange, readdirSync(strange)[0]!)
    const kinds = new Set<string>()

    for (let index = 0; index < runs; index += 1) {
      const chance = new Chance(seed * 1000 + index)
      const draw = (below: number) => chance.below(below)
      const { user, folder } = someone(`damaged ${seed} ${index}`)
      await writeForms(user, ['kept', 'lost', 'changed'])
      await run(user, ['backup', folder])
      const saved = await contentOf(user)
      for (const name of collections) {
        const ids = sandbox.records(user, name).map(({ id }) => id)
        sandbox.remove(
          user,
          name,
          ids.filter(() => draw(3) === 0),
        )
      }
      const newer = { id: 'changed', name: 'changed', value: 'now' }
      sandbox.write(user, 'forms', [await encrypted(sandbox, user, 'forms', newer)])
      const before = await contentOf(user)
      const done = damage(join(folder, readdirSync(folder)[0]!), foreign, draw)
      kinds.add(done.split(' ')[0]!)
      const overwrites = draw(2) === 0

      const command = ['restore', folder, '--write', ...(overwrites ? ['--overwrite'] : [])]
      const { said, code } = await run(user, command)

      const after = await contentOf(user)
      const context = `${done} (run ${index}): ${said}`
      expect([context, [0, 1, 3].includes(code)]).toEqual([context, true])
      expect(said).not.toMatch(/^\s+at /m)
      for (const [path, clear] of before) {
        const now = after.get(path)
        const allowed = overwrites ? [clear, saved.get(path)] : [clear]
        const isKept = allowed.some((each) => essenceOf(path, each) === essenceOf(path, now))
        expect([context, path, isKept]).toEqual([context, path, true])
      }
      const missing = [...saved].filter(([path, clear]) => clear && !after.has(path))
      if (code === 0) expect([context, missing]).toEqual([context, []])
    }

    expect(kinds.size).toBeGreaterThan(2)
  }, 600_000)
})

import { afterAll, describe, expect, it } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { removeAbandonedDrafts } from '../../../src/cli/data/drafts.ts'
import { writeWhole } from '../../../src/cli/data/whole-file.ts'
import { endAll, makeFolder } from '../../support/executable.ts'

afterAll(endAll)

const file = join(import.meta.dir, '../../../src/cli/data/whole-file.ts')
const now = Date.now

/** Writes a file in a process that is killed in the middle of it. */
function writeAndDie(path: string, environment: Record<string, string>): void {
  const program = `
    import { writeWhole } from ${JSON.stringify(file)}
    function* parts() {
      yield 'decrypted'
      process.kill(process.pid, 'SIGKILL')
      for (;;) yield ''
    }
    writeWhole(${JSON.stringify(path)}, parts(), { environment: ${JSON.stringify(environment)} })`
  const { signalCode } = Bun.spawnSync([process.execPath, '-e', program])
  expect(signalCode).toBe('SIGKILL')
}

// A process, because only one that is killed leaves its draft behind.
describe('the draft of a file', () => {
  it('is removed by the next command if its process was killed, and the file stays', () => {
    const home = makeFolder()
    const folder = makeFolder({ 'bookmarks.html': 'before' })
    const environment = { HOME: home }
    writeAndDie(join(folder, 'bookmarks.html'), environment)
    const left = readdirSync(folder)

    removeAbandonedDrafts('/nowhere/account.env', { environment, now })

    expect(left).toHaveLength(2)
    expect(readdirSync(folder)).toEqual(['bookmarks.html'])
    expect(readFileSync(join(folder, 'bookmarks.html'), 'utf8')).toBe('before')
    expect(readdirSync(join(home, '.local/state/sync-bridge/drafts'))).toEqual([])
  })

  it('stays while its process writes it', () => {
    const environment = { XDG_STATE_HOME: makeFolder() }
    const folder = makeFolder()
    const path = join(folder, 'file')
    const notes = join(environment.XDG_STATE_HOME, 'sync-bridge/drafts')
    const seen: unknown[] = []
    function* parts() {
      yield 'a'
      const [note] = readdirSync(notes)
      // As if another process wrote it, which runs.
      renameSync(join(notes, note!), join(notes, note!.replace(`-${process.pid}-`, `-${process.ppid}-`)))
      removeAbandonedDrafts('/nowhere/account.env', { environment, now })
      seen.push(readdirSync(folder).length, readdirSync(notes).length, statSync(notes).mode & 0o777)
      yield 'b'
    }

    writeWhole(path, parts(), { environment })

    expect(readFileSync(path, 'utf8')).toBe('ab')
    expect(seen).toEqual([1, 1, 0o700])
  })

  it('of another machine is removed after a day, and nothing that is not a draft', () => {
    const environment = { XDG_STATE_HOME: makeFolder() }
    const notes = join(environment.XDG_STATE_HOME, 'sync-bridge/drafts')
    mkdirSync(notes, { recursive: true })
    const drafts = ['a', 'b'].map((digit) => `.sync-bridge-${digit.repeat(36)}`)
    const folder = makeFolder({ [drafts[0]!]: '', [drafts[1]!]: '', mine: '' })
    for (const [note, name] of [
      ['elsewhere-1-old', drafts[0]!],
      ['elsewhere-1-new', drafts[1]!],
      [`${hostname().replaceAll(/[^\w.]/g, '_')}-999999999-x`, 'mine'],
    ] as const)
      writeFileSync(join(notes, note), join(folder, name))
    const longAgo = new Date(Date.now() - 90_000_000)
    utimesSync(join(notes, 'elsewhere-1-old'), longAgo, longAgo)

    removeAbandonedDrafts('/nowhere/account.env', { environment, now })

    expect(readdirSync(folder).toSorted()).toEqual([drafts[1]!, 'mine'])
    expect(readdirSync(notes)).toEqual(['elsewhere-1-new'])
  })

  it('of a program beside the account file is removed after a day', () => {
    const drafts = ['a', 'b'].map((digit) => `.sync-bridge-${digit.repeat(36)}`)
    const folder = makeFolder({ [drafts[0]!]: '', [drafts[1]!]: '', 'account.env': '' })
    const longAgo = new Date(Date.now() - 90_000_000)
    for (const name of [drafts[0]!, 'account.env']) utimesSync(join(folder, name), longAgo, longAgo)

    removeAbandonedDrafts(join(folder, 'account.env'), { environment: {}, now })

    expect(readdirSync(folder).toSorted()).toEqual([drafts[1]!, 'account.env'])
  })

  it('is written where no home has room for notes', () => {
    const path = join(makeFolder(), 'file')

    writeWhole(path, ['a'], { environment: {} })
    writeWhole(`${path}2`, ['a'], { environment: { HOME: '/dev/null' } })
    removeAbandonedDrafts('/nowhere/account.env', { environment: {}, now })

    expect([existsSync(path), existsSync(`${path}2`)]).toEqual([true, true])
  })
})

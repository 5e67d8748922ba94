import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts'
import { endAll, executablePath, makeFolder, start } from '../support/executable.ts'
import { shownAfter } from '../support/shown-after.ts'
import { paste, piecesLeft, take, typeInto } from './pages.ts'
import { accountOf, linesOf } from '../support/records.ts'

const page = 'docs/backup.md'
// Replacements for "systemctl" and "loginctl" that record their arguments.
const listener = '#!/bin/sh\necho "$(basename "$0") $*" >> "$HOME/told"\n'

describe('docs/backup.md', () => {
  let upstream: Sandbox
  let home: string
  let folder: string
  beforeAll(async () => {
    upstream = await startSandbox()
    const user = upstream.addUser('alice')
    fillSampleData(upstream, user, { history: 20, unreadable: ['bookmarks'] })
    home = makeFolder()
    folder = join(home, 'programs')
    for (const made of ['programs', '.local/bin', '.config/sync-bridge'])
      mkdirSync(join(home, made), { recursive: true })
    symlinkSync(executablePath, join(home, '.local/bin/sync-bridge'))
    symlinkSync(executablePath, join(folder, 'sync-bridge'))
    for (const name of ['systemctl', 'loginctl']) writeFileSync(join(folder, name), listener, { mode: 0o755 })
    const account = { ...accountOf(user), TOKEN_SERVER_URL: upstream.tokenServerUrl }
    writeFileSync(join(home, '.config/sync-bridge/account.env'), linesOf(account), { mode: 0o600 })
    const commands = take(page, 'daemon-reload')
    const { output, code } = await typeInto(home, `set -e\n${commands}`, folder)
    if (code !== 0 || !shownAfter(page, commands).test(output)) throw new Error(output)
  })
  afterAll(async () => {
    await upstream?.stop()
    endAll()
  })

  const unit = (name: string) => readFileSync(join(home, '.config/systemd/user', name), 'utf8')
  /** The result of typing these lines as a user with this home directory. */
  const type = (lines: string) => paste(lines, { HOME: home }, folder)
  const backups = () => readdirSync(join(home, 'sync-backups')).length

  it.skipIf(!Bun.which('systemd-analyze'))('has units without errors according to systemd', async () => {
    const paths = ['service', 'timer'].map((kind) => join(home, `.config/systemd/user/sync-backup.${kind}`))

    const environment = { HOME: home, XDG_RUNTIME_DIR: makeFolder() }
    const { output, errors } = await paste(`systemd-analyze --user verify ${paths.join(' ')}`, environment)

    expect(output + errors.replaceAll(/^.*sync-bridge is not executable.*\n/gm, '')).toBe('')
  })

  it('starts units that exist', () => {
    expect(readFileSync(join(home, 'told'), 'utf8').trimEnd().split('\n')).toEqual([
      'systemctl --user daemon-reload',
      'systemctl --user start sync-backup',
      'systemctl --user enable --now sync-backup.timer',
      'loginctl enable-linger',
    ])
    expect(unit('sync-backup.timer')).toContain('WantedBy=timers.target')
  })

  it('backs up like the service', async () => {
    const [, command] = /^ExecStart=(.*)$/m.exec(unit('sync-backup.service'))!

    const { errors, code } = await type(command!.replaceAll('%h', home))

    expect([code, backups()]).toEqual([0, 1])
    expect(errors).toContain('history: 20 records, of which the key opens 20: 20 added')
  })

  it('has a line for cron that only prints something if something is missing', async () => {
    const line = take(page, 'said=')
    const backUp = line.trimEnd().split(' ').slice(5).join(' ')
    const before = backups()

    const well = await typeInto(home, backUp, folder)
    const after = backups()
    const lost = await type(`export SYNC_BRIDGE_ACCOUNT=nowhere; ${backUp}`)

    expect(well).toEqual({ output: expect.stringMatching(shownAfter(page, line)), code: 0 })
    expect(after).toBe(before + 1)
    expect(lost.output).toContain('nowhere')
  })

  it('has a practice restore that ends with everything readable in a sandbox', async () => {
    const command = take(page, 'sandbox --empty').trim().split(' ').slice(1)
    await using sandbox = start([...command, '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const practice = take(page, 'SYNC_BRIDGE_ACCOUNT=FILE')
    const lines = practice.replace('FILE', source.trim().slice(2)).trimEnd().split('\n')

    const { output, code } = await typeInto(home, `${lines.join('; echo "exit code $?"\n')}`, folder)

    const [, , second] = output.split('records will be encrypted again\n')
    const found = Array.from(second!.match(/^\w+: \d+ to write.*$/gm) ?? [])
    const names = ['passwords', 'bookmarks', 'forms', 'prefs', 'history']
    const codes = output.match(/^exit code \d$/gm)
    expect(output.replaceAll(/^exit code \d\n/gm, '')).toMatch(shownAfter(page, practice, home))
    expect([codes, code]).toEqual([['exit code 0', 'exit code 3', 'exit code 3'], 0])
    expect(output).toContain('  1 record cannot be decrypted: ')
    expect(found).toEqual(names.map((name) => `${name}: 0 to write`))
    expect(output).toContain('bookmarks   300')
  })

  it('restores into the account itself', async () => {
    const commands = take(page, 'restore ~/sync-backups\n')

    const { output, code } = await typeInto(home, `set -e\n${commands}`, folder)

    expect([output, code]).toEqual([expect.stringMatching(shownAfter(page, commands, home)), 0])
    expect(output.match(/^bookmarks: 0 to write.*$/gm)).toEqual([
      'bookmarks: 0 to write, 0 different in the storage',
      'bookmarks: 0 to write, 0 different in the storage',
    ])
  })

  it('has no code that is not run here', () => {
    expect(piecesLeft(page)).toEqual([])
  })
})

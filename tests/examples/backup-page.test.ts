import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts'
import { freePort } from '../support/free-port.ts'
import { endAll, makeFolder, start, type Running } from '../support/executable.ts'
import { paste, piecesLeft, take, withExamples } from './pages.ts'
import { accountOf, linesOf } from './records.ts'

const page = 'docs/backup.md'
// "systemctl" and "loginctl" in their place write down what they are told.
const listener = '#!/bin/sh\necho "$(basename "$0") $*" >> "$HOME/told"\n'

describe('docs/backup.md', () => {
  let upstream: Sandbox
  let home: string
  let folder: string
  let bridge: Running
  beforeAll(async () => {
    upstream = await startSandbox()
    const user = upstream.addUser('alice')
    fillSampleData(upstream, user)
    home = withExamples()
    folder = join(home, 'sync-backup')
    mkdirSync(join(home, '.bun/bin'), { recursive: true })
    symlinkSync(process.execPath, join(home, '.bun/bin/bun'))
    const url = `http://127.0.0.1:${await freePort()}`
    const port = `service.port = ${new URL(url).port}`
    const setUp = take(page, 'mkdir -p ~/sync-backup').replace(
      'https://token.services.mozilla.com',
      `${upstream.tokenServerUrl}\n${port}`,
    )
    // What a person types after "cat".
    const typed = `cat > account.env <<END\n${linesOf(accountOf(user))}END\n`
    const identify = take(page, 'cat > account.env').replace('cat > account.env', typed)
    const locate = take(page, 'BRIDGE_URL').replace('http://127.0.0.1:8000', url)
    const { errors, code } = await paste(`set -e\n${setUp}\n${identify}\n${locate}`, { HOME: home }, home)
    if (code !== 0) throw new Error(errors)
    for (const name of ['bun', 'systemctl', 'loginctl']) {
      if (name === 'bun') symlinkSync(process.execPath, join(folder, name))
      else writeFileSync(join(folder, name), listener, { mode: 0o755 })
    }
    const [, program, args] = /^ExecStart=%h\/sync-backup\/(sync-bridge) (.*)$/m.exec(unit('bridge.service'))!
    bridge = start(args!.split(' '), { cwd: folder, executable: join(folder, program!) })
    await bridge.line(/"event":"listening"/)
  })
  afterAll(async () => {
    await upstream?.stop()
    endAll()
  })

  const unit = (name: string) => readFileSync(join(home, `.config/systemd/user/sync-${name}`), 'utf8')
  /** What comes of lines that are typed in the folder of the backups. */
  const type = (lines: string) => paste(lines, { HOME: home }, folder)
  const backups = () => readdirSync(join(folder, 'backups')).length

  it.skipIf(!Bun.which('systemd-analyze'))(
    'makes units that systemd understands to the last word',
    async () => {
      const units = ['bridge.service', 'backup.service', 'backup.timer'].map((name) => `sync-${name}`)
      const paths = units.map((name) => join(home, '.config/systemd/user', name)).join(' ')

      const environment = { HOME: home, XDG_RUNTIME_DIR: makeFolder() }
      const { output, errors } = await paste(`systemd-analyze --user verify ${paths}`, environment)

      expect(output + errors.replaceAll(/^.*sync-bridge is not executable.*\n/gm, '')).toBe('')
    },
  )

  it('starts units that are there', async () => {
    await type(take(page, 'daemon-reload'))

    const told = readFileSync(join(home, 'told'), 'utf8').trimEnd().split('\n')
    expect(told).toEqual([
      'systemctl --user daemon-reload',
      'systemctl --user start sync-backup',
      'systemctl --user enable --now sync-backup.timer',
      'loginctl enable-linger',
    ])
    expect(unit('backup.timer')).toContain('WantedBy=timers.target')
  })

  it('backs up as the service does, and by hand', async () => {
    const [, command] = /^ExecStart=(.*)$/m.exec(unit('backup.service'))!
    const [, path] = /^Environment=PATH=%h(.*)$/m.exec(unit('backup.service'))!

    const byService = await type(`PATH=${home}${path} ${command}`)
    const byHand = await type(take(page, 'bun backup.ts backups --keep 30\n'))

    expect([byService.errors, byService.code, byHand.errors, byHand.code]).toEqual(['', 0, '', 0])
    expect(byService.output).toContain('history: 3000 records\n')
    expect(byHand.output).toContain('history: unchanged\n')
    expect(backups()).toBe(2)
  })

  it('has lines for cron that say something only when something is missing', async () => {
    const [serve, command] = take(page, '@reboot').trimEnd().split('\n')
    const backUp = command!.split(' ').slice(5).join(' ')
    const before = backups()

    const well = await type(backUp)
    const after = backups()
    const lost = await type(backUp.replace('bun backup.ts', 'BUCKET=x bun backup.ts'))

    expect(serve).toContain('./sync-bridge serve --config bridge.ini')
    expect(well).toEqual({ output: '', errors: '', code: 0 })
    expect(after).toBe(before + 1)
    expect(lost.output).toStartWith('Set BRIDGE_URL, BEARER_TOKEN, KEY_ID: ')
  })

  it('has a drill that ends with everything in a sandbox', async () => {
    const command = take(page, 'sandbox --empty').trim().split(' ').slice(1)
    await using sandbox = start([...command, '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const drill = take(page, 'BACKUP_SYNC_KEY')

    const untold = await type(drill)
    const { output, errors, code } = await type(`${source}\n${drill}`)

    const [, , second] = output.split('records are encrypted anew\n')
    const found = Array.from(second!.match(/^\w+: .*$/gm) ?? [])
    expect([errors, code]).toEqual(['', 0])
    expect([untold.output, untold.code]).toEqual(['', 1])
    expect(output).toContain('bookmarks: 300 to write, 0 different in the storage\n  300 written')
    const names = ['bookmarks', 'forms', 'history', 'passwords', 'prefs']
    expect(found).toEqual(names.map((name) => `${name}: 0 to write, 0 different in the storage`))
    expect(output).toContain('\n300 bookmarks and folders\n')
  })

  it('has settings that allow a restore', async () => {
    const commands = take(page, '_put_enabled')

    const check = './sync-bridge check --offline --quiet --config bridge.ini'
    const { errors, code } = await type(`set -e\n${commands}\n${check}`)

    expect([errors, code]).toEqual(['', 0])
    const settings = readFileSync(join(folder, 'bridge.ini'), 'utf8')
    expect(settings).toContain('record_passwords_put_enabled = true\n')
  })

  it('has no code that is not run here', () => {
    expect(piecesLeft(page)).toEqual([])
    expect(bridge.errors()).toBe('')
  })
})

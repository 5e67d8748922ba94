import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { version } from '../../src/version.ts'
import { runBash } from '../support/processes.ts'

const main = join(import.meta.dir, '../../src/main.ts')

function start(...args: string[]) {
  return Bun.spawnSync([process.execPath, main, ...args], { env: { PATH: '/usr/bin:/bin' } })
}

// Processes, because only they have exit codes, and output that can be closed or full.
describe('main', () => {
  it('exits with the code of the command, once everything is written', () => {
    const asked = start('--version')
    const wrong = start('nothing')

    expect([asked.exitCode, asked.stdout.toString()]).toEqual([
      0,
      `sync-bridge ${version} (commit unknown)\n`,
    ])
    expect([wrong.exitCode, wrong.stderr.toString()]).toEqual([
      2,
      `sync-bridge: unknown command 'nothing'\nTry "sync-bridge --help".\n`,
    ])
  })

  it('survives a reader that has disconnected', () => {
    const { exitCode } = runBash('exec 3> >(exit); wait $!; "$@" >&3', process.execPath, main, 'init')

    expect(exitCode).toBe(0)
  })

  it.skipIf(process.platform !== 'linux')('fails if its output is closed', () => {
    const { exitCode, stderr } = runBash('"$@" >&-', process.execPath, main, 'init')

    expect(exitCode).toBe(1)
    expect(stderr.toString()).toBe('sync-bridge: Cannot write to standard output: EBADF\n')
  })

  it("fails if its output can't be written", () => {
    const { exitCode, stderr } = runBash('"$@" >/dev/full', process.execPath, main, 'init')

    expect(exitCode).toBe(1)
    expect(stderr.toString()).toEndWith('Cannot write to standard output: ENOSPC\n')
  })
})

import { describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { version } from '../../src/version.ts'
import { runBash, temporaryFolder } from '../support/processes.ts'
import { minimalIni } from './fake-host.ts'

const main = join(import.meta.dir, '../../src/main.ts')

function start(args: string[], environment: Record<string, string> = {}) {
  return Bun.spawnSync([process.execPath, main, ...args], { env: { PATH: '/usr/bin:/bin', ...environment } })
}

// Processes, because only they have exit codes, and output that can be closed or full.
describe('main', () => {
  it('exits with the code of the command, once everything is written', () => {
    const asked = start(['--version'])
    const wrong = start(['nothing'])

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

  it.each([['init'], ['completion bash']])(`fails if the output of "%s" can't be written`, (command) => {
    const { exitCode, stderr } = runBash('"$1" "$2" $3 >/dev/full', process.execPath, main, command)

    expect(exitCode).toBe(1)
    expect(stderr.toString()).toEndWith('Cannot write to standard output: ENOSPC\n')
  })

  it.each([[''], ['--json']])('fails if the settings that "check %s" shows can\'t be written', (option) => {
    using folder = temporaryFolder()
    const path = folder.file('bridge.ini')
    writeFileSync(path, minimalIni)

    const command = '"$1" "$2" check --offline --config "$3" $4 >/dev/full'
    const { exitCode, stderr } = runBash(command, process.execPath, main, path, option)

    expect(exitCode).toBe(1)
    expect(stderr.toString()).toEndWith('Cannot write to standard output: ENOSPC\n')
  })

  it('reads settings from files, and relative names from their folder', () => {
    using folder = temporaryFolder()
    const path = folder.file('bridge.ini')
    const lines = ['token_server_url = https://token.example.org', 'certificate_ca_bundle = ca.pem']
    writeFileSync(path, lines.map((line) => `service.${line}\n`).join(''))
    writeFileSync(folder.file('ca.pem'), '')

    const { exitCode, stderr } = start(['serve', '--config', path])

    expect(exitCode).toBe(2)
    expect(stderr.toString()).toStartWith(
      `${path}:2: service.certificate_ca_bundle: the file "${folder.file('ca.pem')}" contains no certificate: `,
    )
    expect(stderr.toString()).toEndWith('sync-bridge: 2 problems with the settings\n')
  })

  it.each([
    ['/', 'is a directory'],
    ['/dev/zero', 'too large'],
    ['/nowhere.ini', 'no such file'],
  ])('does not read %s as settings', (path, reason) => {
    const { exitCode, stderr } = start(['serve', '--config', path])

    expect(exitCode).toBe(2)
    expect(stderr.toString()).toBe(
      `${path}: cannot be read (${reason}): specify the settings file with --config FILE\n`,
    )
  })
})

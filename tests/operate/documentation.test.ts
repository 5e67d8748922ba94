import { describe, expect, it } from 'bun:test'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { settingsSchema } from '../../src/settings/schema.ts'
import { runProgram, temporaryFolder } from '../support/processes.ts'
import { executablePath } from '../system/process.ts'

const path = join(import.meta.dir, '../../docs/operate.md')
const text = readFileSync(path, 'utf8')

describe('the guide for operators', () => {
  it('installs in five lines', async () => {
    const lines = /^## Installing[\s\S]*?```sh\n([\s\S]*?)```/m.exec(text)![1]!.trim()
    using folder = temporaryFolder()
    const sandbox = await startSandbox()
    const script = lines
      .replaceAll(/(?<![\w.])\/(etc|usr)\//g, `${folder.path}/$1/`)
      .replace(/^zcat \S+/, `cat ${executablePath}`)
      .replace('https://token.services.mozilla.com', sandbox.tokenServerUrl)
    // In a folder instead of the whole machine, as whoever runs the tests, and without a service manager.
    const stand = `set -eu -o pipefail\nsudo() { [ "$1" = systemctl ] && echo "$@" || "$@"; }\nsync-bridge() { ${folder.path}/usr/local/bin/sync-bridge "$@"; }\n`
    await runProgram(['mkdir', '-p', folder.file('etc/systemd/system')])
    writeFileSync(folder.file('install.sh'), stand + script)

    const printed = await runProgram(['bash', folder.file('install.sh')])
    const unit = readFileSync(folder.file('etc/systemd/system/sync-bridge.service'), 'utf8')
    const checked = await runProgram(
      [
        folder.file('usr/local/bin/sync-bridge'),
        'check',
        '--config',
        folder.file('etc/sync-bridge/sync-bridge.ini'),
      ],
      {
        environment: {
          CREDENTIALS_DIRECTORY: folder.file('etc/sync-bridge'),
          SERVICE_CACHE_BACKEND: 'memory',
        },
      },
    )
    await sandbox.stop()

    expect(lines.split('\n')).toHaveLength(5)
    expect(printed).toContain('systemctl enable --now sync-bridge')
    expect(unit).toContain(`ExecStart=${folder.path}/usr/local/bin/sync-bridge serve`)
    expect(statSync(folder.file('etc/sync-bridge/cache_hmac_secret')).mode & 0o777).toBe(0o600)
    expect(checked).toContain('token server: answers')
  })

  it('names files that are there', () => {
    const links = [...text.matchAll(/\]\(([^)#]+)\)/g)].map(([, target]) => target!)

    expect(links.length).toBeGreaterThan(3)
    for (const link of links) expect([link, existsSync(join(dirname(path), link))]).toEqual([link, true])
  })

  it('names settings that exist', () => {
    const named = [...text.matchAll(/`(?:service\.)?([a-z]+(?:_[a-z]+)+)(?: = [^`]*)?`/g)].map(
      ([, name]) => name!,
    )

    expect(named.length).toBeGreaterThan(15)
    for (const name of named) {
      expect([name, Object.hasOwn(settingsSchema, name)]).toEqual([name, true])
    }
  })
})

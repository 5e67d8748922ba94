import { afterAll, describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'

import { runProgram, temporaryFolder, words } from '../support/processes.ts'
import { endAll, executablePath, iniText, makeFolder } from '../system/process.ts'

const settings = { token_server_url: 'http://127.0.0.1:1' }

afterAll(endAll)

/** The unit as it is printed, in a file that has the name of a unit. */
async function printUnit() {
  const folder = temporaryFolder()
  const path = folder.file('sync-bridge.service')
  const text = await runProgram([executablePath, 'systemd-unit'])
  writeFileSync(path, text)
  return { path, text, [Symbol.dispose]: () => folder[Symbol.dispose]() }
}

describe('the unit for systemd', () => {
  it('is understood by systemd to the last word', async () => {
    using unit = await printUnit()

    const said = await runProgram(['systemd-analyze', 'verify', unit.path])

    // Growing pauses between restarts came with systemd 254; before, they are ignored.
    const unknown =
      /^.*Unknown key '(RestartSteps|RestartMaxDelaySec)' in section \[Service\], ignoring\.\n?/gm
    expect(said.replaceAll(unknown, '')).toBe('')
  })

  it('shuts the service off from the machine: an exposure of 1.0 at most, of 10', async () => {
    using unit = await printUnit()

    const report = await runProgram(words`systemd-analyze security --offline=true --no-pager ${unit.path}`)

    const exposure = /Overall exposure level for sync-bridge\.service: (\d+\.\d)/.exec(report)?.[1]
    expect(Number(exposure)).toBeLessThanOrEqual(1)
  })

  it('lets the service open as many files as its settings need', async () => {
    const unitFor = async (max_concurrent_requests: string) => {
      const cwd = makeFolder({ 'bridge.ini': iniText({ ...settings, max_concurrent_requests }) })
      return runProgram(words`${executablePath} systemd-unit --config bridge.ini`, { cwd })
    }

    expect(await unitFor('512')).toContain('\nLimitNOFILE=65536\n')
    expect(await unitFor('50000')).toContain('\nLimitNOFILE=200512\n')
  })

  it('is needed for that: a start with fewer files warns', async () => {
    const cwd = makeFolder({ 'bridge.ini': iniText(settings) })
    const check = (limit: number) =>
      runProgram(
        ['sh', '-c', `ulimit -n ${limit}; exec "${executablePath}" check --offline --config bridge.ini`],
        { cwd },
      )

    expect(await check(1000)).toContain(
      'warning: service.max_concurrent_requests: a process may open 1000 files, which is too few: raise LimitNOFILE=',
    )
    expect(await check(10_000)).not.toContain('may open')
  })

  it('says why memory may become code', async () => {
    using unit = await printUnit()

    expect(unit.text).toMatch(
      /^# MemoryDenyWriteExecute= is left out: JavaScript is compiled to machine code/m,
    )
    expect(unit.text).not.toMatch(/^MemoryDenyWriteExecute=/m)
  })
})

import { describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'

import { runProgram, temporaryFolder } from '../support/processes.ts'
import { executablePath } from '../system/process.ts'

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

    const report = await runProgram([
      'systemd-analyze',
      'security',
      '--offline=true',
      '--no-pager',
      unit.path,
    ])

    const exposure = /Overall exposure level for sync-bridge\.service: (\d+\.\d)/.exec(report)?.[1]
    expect(Number(exposure)).toBeLessThanOrEqual(1)
  })

  it('says why memory may become code', async () => {
    using unit = await printUnit()

    expect(unit.text).toMatch(
      /^# MemoryDenyWriteExecute= is left out: JavaScript is compiled to machine code/m,
    )
    expect(unit.text).not.toMatch(/^MemoryDenyWriteExecute=/m)
  })
})

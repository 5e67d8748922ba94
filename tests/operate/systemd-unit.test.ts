import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'

import { runProgram, temporaryFolder, words } from '../support/processes.ts'
import { executablePath } from '../support/executable.ts'

// The tools of systemd, because they decide what the unit means.
describe('the unit for systemd', () => {
  const folder = temporaryFolder()
  const path = folder.file('sync-bridge.service')

  beforeAll(async () => writeFileSync(path, await runProgram([executablePath, 'systemd-unit'])))

  afterAll(() => folder[Symbol.dispose]())

  it('has no errors according to systemd', async () => {
    expect(await runProgram(words`systemd-analyze verify ${path}`)).toBe('')
  })

  it('isolates the service from the machine: an exposure of at most 1.0, of 10', async () => {
    const report = await runProgram(words`systemd-analyze security --offline=true --no-pager ${path}`)

    const exposure = /Overall exposure level for sync-bridge\.service: (\d+\.\d)/.exec(report)?.[1]
    expect(Number(exposure)).toBeLessThanOrEqual(1)
  })
})

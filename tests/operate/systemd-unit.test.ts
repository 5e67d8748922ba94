import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'

import { runProgram, temporaryFolder, words } from '../support/processes.ts'
import { executablePath } from '../support/executable.ts'

describe('the unit for systemd', () => {
  const folder = temporaryFolder()
  const path = folder.file('sync-bridge.service')

  beforeAll(async () => writeFileSync(path, await runProgram([executablePath, 'systemd-unit'])))

  afterAll(() => folder[Symbol.dispose]())

  it('is understood by systemd to the last word', async () => {
    expect(await runProgram(words`systemd-analyze verify ${path}`)).toBe('')
  })

  it('shuts the service off from the machine: an exposure of 1.0 at most, of 10', async () => {
    const report = await runProgram(words`systemd-analyze security --offline=true --no-pager ${path}`)

    const exposure = /Overall exposure level for sync-bridge\.service: (\d+\.\d)/.exec(report)?.[1]
    expect(Number(exposure)).toBeLessThanOrEqual(1)
  })
})

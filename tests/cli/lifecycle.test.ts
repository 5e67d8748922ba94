import { describe, expect, it } from 'bun:test'

import { createOutputLog } from '../../src/cli/lifecycle.ts'
import { fakeHost } from './fake-host.ts'

import type { Settings } from '../../src/settings/settings.ts'

const settings = { loggingRenderer: 'text', loggingLevel: 'info' } as Settings

async function lineOn(output: { isTty: boolean; isJournal: boolean }, environment: Record<string, string>) {
  let written = ''
  const write = (text: string, done?: () => void) => {
    written += text
    done?.()
  }
  const { log, flush } = createOutputLog(settings, fakeHost({}, environment), { ...output, write })
  log.warning('redis error')
  await flush()
  return written
}

describe('createOutputLog', () => {
  const terminal = { isTty: true, isJournal: false }

  it('colours text for a terminal, unless the environment says NO_COLOR', async () => {
    expect(await lineOn(terminal, {})).toContain('\x1b[33mwarning')
    expect(await lineOn(terminal, { NO_COLOR: '' })).toContain('\x1b[33mwarning')
    expect(await lineOn(terminal, { NO_COLOR: '1' })).toMatch(/^[\d-]+T[\d:.]+Z warning redis error\n$/)
  })

  it('begins lines for the journal with their priority', async () => {
    expect(await lineOn({ isTty: false, isJournal: true }, {})).toMatch(/^<4>\d.* warning redis error\n$/)
  })
})

import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'

import { endAll, executablePath, iniText, makeFolder, start } from '../support/executable.ts'

afterAll(endAll)

const nowhere = { token_server_url: 'http://127.0.0.1:1' }

// Beside other tests, a process with SCHED_IDLE would get no processor.
describe('the threads of a process', () => {
  /** The scheduling policies of the threads with that name. */
  function policiesOf(pid: number, name: string): string[] {
    const threads = readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}`)
    return threads
      .filter((path) => readFileSync(`${path}/comm`, 'utf8').trim() === name)
      .map((path) => readFileSync(`${path}/stat`, 'utf8').split(') ')[1]!.split(' ')[38]!)
  }

  it.each([
    ['do not interrupt one another (SCHED_BATCH)', '--other', '3'],
    ['keep a policy that somebody chose (SCHED_IDLE)', '--idle', '5'],
  ])('%s', async (_, policy, expected) => {
    const cwd = makeFolder({ 'bridge.ini': iniText(nowhere) })
    const command = [policy, '0', executablePath, 'serve', '--config', 'bridge.ini']
    const running = start(command, { cwd, executable: 'chrt' })
    await running.line(/"event":"listening"/)
    const headers = { Authorization: 'Bearer token', 'X-KeyID': '1-AAAAAAAAAAAAAAAAAAAAAA' }
    await fetch(`${running.events('listening')[0]!.url}/v1/`, { headers })

    expect(policiesOf(running.pid, 'sync-bridge')).toEqual([expected])
    expect(policiesOf(running.pid, 'HTTP Client')).toEqual([expected])
    await running.stop()
  })
})

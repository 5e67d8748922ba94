import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { openRaw } from '../spec/raw-http.ts'
import { startExecutable, type Executable } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** What a body may have at most, `max_request_bytes` of the settings. */
const mostBytes = 2_100_000

let user: SandboxUser
let bridge: Executable

beforeAll(async () => {
  bridge = await startExecutable({ writable: ['tabs'], settings: { max_request_bytes: `${mostBytes}` } })
  user = bridge.sandbox.addUser('somebody')
})

afterAll(() => bridge.stop())

describe('a hostile body', () => {
  it('that is too long is rejected midway, and delays no one before', async () => {
    for (const target of targets()) {
      const request = openRaw(bridge.url)
      const headers = { Host: new URL(bridge.url).host, ...identity(), 'Transfer-Encoding': 'chunked' }
      const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)

      request.write([`${target} HTTP/1.1`, ...fields, '\r\n'].join('\r\n') + chunk(mostBytes))
      const others = await fetch(`${bridge.url}/__lbheartbeat__`)
      const isAnsweredEarly = Bun.peek.status(request.answer) !== 'pending'
      request.write(chunk(1))

      expect([others.status, isAnsweredEarly]).toEqual([200, false])
      // The chunk that would end the body is never sent.
      expect(JSON.parse((await request.answer).body)).toMatchObject({ code: 413, errno: 113 })
    }
  })
})

function recordPath(): string {
  return `/v1/buckets/${user.clientState}/collections/tabs/records/x`
}

function targets(): string[] {
  return [`PUT ${recordPath()}`, 'POST /v1/batch']
}

function identity(): Record<string, string> {
  return {
    Authorization: `Bearer ${user.bearerToken()}`,
    'X-KeyID': user.keyId,
    'Content-Type': 'application/json',
  }
}

function chunk(length: number): string {
  return `${length.toString(16)}\r\n${'x'.repeat(length)}\r\n`
}

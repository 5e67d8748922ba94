import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { openRaw } from '../spec/raw-http.ts'
import { startExecutable, type Executable } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** The maximum size of a body, `max_request_bytes`. */
const mostBytes = 2_100_000

let user: SandboxUser
let bridge: Executable

beforeAll(async () => {
  bridge = await startExecutable({ writable: ['tabs'], settings: { max_request_bytes: `${mostBytes}` } })
  user = bridge.sandbox.addUser('somebody')
})

afterAll(() => bridge.stop())

const deepObjects = `{"data":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`
const wide = `{"data":{${Array.from({ length: 150_000 }, (_, index) => `"k${index}":0`).join()}}}`
const escapes = `{"data":{"payload":"${String.raw`\"`.repeat(1_000_000)}`

// A process of its own, because the event loop that a body could block is not that of the test.
describe('a hostile body', () => {
  it('that is too long is rejected midway, and delays no other request', async () => {
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

  it.each([
    { name: '100 000 objects deep', body: deepObjects },
    { name: '150 000 members wide', body: wide },
    { name: 'a string of escapes without an end', body: escapes },
  ])('of $name is rejected, and others are answered', async ({ body }) => {
    // Its cost is compared with plain text in tests/costs.
    for (const target of targets()) {
      const [refusal, others] = await Promise.all([
        post(target, body),
        fetch(`${bridge.url}/__lbheartbeat__`),
      ])

      expect(refusal).toMatchObject({ code: 400, errno: 109 })
      expect(others.status).toBe(200)
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

async function post(target: string, body: string): Promise<unknown> {
  const [method, path] = target.split(' ')
  const answer = await fetch(bridge.url + path, { method: method!, headers: identity(), body })
  return answer.json()
}

function chunk(length: number): string {
  return `${length.toString(16)}\r\n${'x'.repeat(length)}\r\n`
}

import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { connect } from 'node:net'

import { startExecutable } from '../support/executable.ts'
import type { Executable } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** What a body may have at most, `max_request_bytes` of the settings. */
const mostBytes = 100_000

const writable = ['tabs']

let user: SandboxUser
let bridge: Executable
let strict: Executable

beforeAll(async () => {
  bridge = await startExecutable({ writable })
  const { sandbox } = bridge
  user = sandbox.addUser('somebody')
  const settings = { max_request_bytes: `${mostBytes}` }
  strict = await startExecutable({ writable, settings, tokenServerUrl: sandbox.tokenServerUrl })
})

afterAll(() => Promise.all([bridge.stop(), strict.stop()]))

const deep = `{"data":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
const deepObjects = `{"data":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`
const wide = `{"data":{${Array.from({ length: 150_000 }, (_, index) => `"k${index}":0`).join()}}}`
const escapes = `{"data":{"payload":"${String.raw`\"`.repeat(1_000_000)}`

describe('a hostile body', () => {
  it('that is too long is refused in the middle, and holds nobody up before', async () => {
    for (const target of targets()) {
      using request = open(strict.url, target)

      request.write(chunk(mostBytes))
      const others = await fetch(`${strict.url}/__lbheartbeat__`)
      const isAnsweredEarly = Bun.peek.status(request.answer) !== 'pending'
      request.write(chunk(1))

      expect([others.status, isAnsweredEarly]).toEqual([200, false])
      // The chunk that would end the body is never sent.
      expect(await request.answer).toMatchObject({ code: 413, errno: 113 })
    }
  })

  it.each([
    { name: '100 000 lists deep', body: deep },
    { name: '100 000 objects deep', body: deepObjects },
    { name: '150 000 members wide', body: wide },
    { name: 'a string of escapes without an end', body: escapes },
    { name: 'no UTF-8', body: new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]) },
  ])('of $name is refused, and others are answered', async ({ body }) => {
    // What it costs is compared with plain text in tests/costs.
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

async function post(target: string, body: string | Uint8Array<ArrayBuffer>): Promise<unknown> {
  const [method, path] = target.split(' ')
  const answer = await fetch(bridge.url + path, { method: method!, headers: identity(), body })
  return answer.json()
}

/** Sends the head of a request whose length nobody knows, and of its body what it is told to. */
function open(base: string, target: string) {
  const url = new URL(base)
  const headers = { Host: url.host, ...identity(), 'Transfer-Encoding': 'chunked' }
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  const socket = connect(Number(url.port), url.hostname)
  const answer = new Promise<unknown>((resolve) => {
    let received = ''
    socket.on('data', (data: Buffer) => {
      received += data
      const body = received.split('\r\n\r\n')[1]
      if (body?.endsWith('}')) resolve(JSON.parse(body))
    })
    socket.on('error', resolve)
  })
  socket.write([`${target} HTTP/1.1`, ...fields, '\r\n'].join('\r\n'))
  return { answer, write: (text: string) => socket.write(text), [Symbol.dispose]: () => socket.destroy() }
}

function chunk(length: number): string {
  return `${length.toString(16)}\r\n${'x'.repeat(length)}\r\n`
}

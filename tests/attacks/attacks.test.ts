import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { limits } from '../../src/load/limits.ts'
import { endAll } from '../support/executable.ts'
import { Client, requestText, startAttackedWorld, type AttackedWorld, type Route } from './world.ts'

import type { Socket } from 'node:net'

/** The memory limit of the systemd unit. */
const maxMiB = 512

let world: AttackedWorld
let bystander: Client
const sockets = new Set<Socket>()
let attack = new AbortController()

beforeAll(async () => {
  world = await startAttackedWorld()
  bystander = world.addUser('bystander')
  world.sandbox.write(bystander.user, 'tabs', [{ id: 'a', payload: 'p'.repeat(1000) }])
  for (const route of world.routes) await bystander.ask(route, 'GET', bystander.path('tabs', 'a'))
})

afterEach(() => {
  attack.abort()
  attack = new AbortController()
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  world.tokens.plan(() => null)
  world.storage.plan(() => null)
})

afterAll(async () => {
  await world[Symbol.asyncDispose]()
  endAll()
})

/** Opens a connection and sends this; the response is not read until `resume`. */
function send(route: Route, text: string | Uint8Array): Promise<Socket> {
  const socket = route.connect()
  sockets.add(socket)
  socket.on('error', () => {})
  socket.on('close', () => sockets.delete(socket))
  socket.pause()
  return new Promise((resolve) => {
    const done = () => resolve(socket)
    socket.on('close', done)
    socket.write(text, done)
  })
}

/** Repeats an action with that many concurrent attackers until the attack ends. */
function repeatUntilStopped(count: number, action: (turn: number) => Promise<unknown>): void {
  const { signal } = attack
  for (let each = 0; each < count; each++) {
    void (async () => {
      for (let turn = 0; !signal.aborted; turn++) await action(each + turn * count)
    })()
  }
}

const stranger = (name: number | string) => ({
  Authorization: `Bearer stranger-${name}`,
  'X-KeyID': '1-ASNFZ4mrze8BI0VniavN7w',
})

const askAsStranger = ({ origin }: Route, path: string, name: number | string) =>
  fetch(origin + path, {
    headers: { ...stranger(name), Host: 'sync.example.org' },
    tls: { rejectUnauthorized: false },
  })

const strangersPath = '/v1/buckets/0123456789abcdef0123456789abcdef/collections/tabs/records/x'

/** Sends a hundred requests of a bystander during an attack; returns the failures. */
async function failuresOfBystander(route: Route, client = bystander): Promise<(number | string)[]> {
  const failures = []
  for (let turn = 0; turn < 100; turn++) {
    const outcome =
      turn % 3 === 0
        ? await client.ask(route, 'PUT', client.path('tabs', 'mine'), { data: { payload: `${turn}` } })
        : await client.ask(route, 'GET', client.path('tabs', turn % 3 === 1 ? 'mine' : undefined))
    if (outcome !== 200) failures.push(outcome)
  }
  return failures
}

async function expectNoHarm(route: Route, client = bystander): Promise<void> {
  const failures = await failuresOfBystander(route, client)
  expect(failures.length, failures.join()).toBeLessThanOrEqual(1)
  expect(world.peakMiB()).toBeLessThan(maxMiB)
}

describe.each(['directly', 'through HAProxy', 'through nginx'])(
  'other users are not affected, %s, by',
  (name) => {
    it('unauthenticated clients with 520 connections, and a user with 100, that send one byte of each body', async () => {
      const route = world.routes.find((one) => one.name === name)!
      const slow = world.addUser(`slow ${name}`)
      const headers = { 'Content-Type': 'application/json', 'Content-Length': '1000' }
      await Promise.all(
        Array.from({ length: 620 }, (_, each) =>
          send(
            route,
            each < 520
              ? requestText('PUT', strangersPath, { ...stranger(each), ...headers }, '{')
              : requestText('PUT', slow.path('tabs', 'x'), { ...slow.headers, ...headers }, '{'),
          ),
        ),
      )

      await expectNoHarm(route)
    })
  },
)

// Only the bridge decides the following cases: balancers add no more than buffering.
describe('other users are not affected by', () => {
  const route = () => world.routes[0]!

  it('unauthenticated clients, and a user, that hold 130 large bodies just before their end', async () => {
    const slow = world.addUser('slow')
    const length = 4_000_000
    const body = 'x'.repeat(length - 1)
    const path = '/v1/batch'
    const headers = { 'Content-Type': 'application/json', 'Content-Length': `${length}` }
    const holding = Array.from({ length: 130 }, (_, each) =>
      send(
        route(),
        requestText('POST', path, { ...(each % 2 === 0 ? stranger(each) : slow.headers), ...headers }, body),
      ),
    )

    await expectNoHarm(route())
    attack.abort()
    for (const socket of sockets) socket.destroy()
    await Promise.all(holding)
    expect(world.peakMiB()).toBeLessThan(maxMiB)
  })

  it('a user who requests many lists and reads none', async () => {
    const greedy = world.addUser('greedy')
    world.sandbox.seed(greedy.user, 'big', 400, { payloadBytes: 10_000 })
    await Promise.all(
      Array.from({ length: 8 * limits.listsPerUser }, () =>
        send(route(), requestText('GET', greedy.path('big'), greedy.headers)),
      ),
    )

    await expectNoHarm(route())
  })

  it("a dozen users who don't read large records, lists and batches", async () => {
    const users = Array.from({ length: 12 }, (_, each) => world.addUser(`idle-${each}`))
    const large = [{ id: 'large', payload: 'x'.repeat(1_900_000) }]
    for (const { user } of users) {
      world.sandbox.write(user, 'large', large)
      world.sandbox.seed(user, 'big', 100, { payloadBytes: 10_000 })
    }
    const texts = users.flatMap((user) => {
      const batchOf = (count: number, path: string) => {
        const requests = Array.from({ length: count }, (_, each) => ({ path: `${path}?x=${each}` }))
        const batch = JSON.stringify({ requests })
        const length = { 'Content-Type': 'application/json', 'Content-Length': `${batch.length}` }
        return requestText('POST', '/v1/batch', { ...user.headers, ...length }, batch)
      }
      return [
        requestText('GET', user.path('large', 'large'), user.headers),
        requestText('GET', user.path('big'), user.headers),
        batchOf(10, user.path('big')),
        batchOf(7, user.path('large', 'large')),
      ]
    })
    await Promise.all(Array.from({ length: 320 }, (_, each) => send(route(), texts[each % texts.length]!)))

    await expectNoHarm(route())
  })

  it('unauthenticated root views over a slow token server', async () => {
    const refusal = {
      headers: { 'Content-Type': 'application/json' },
      body: '{"status":"invalid-credentials"}',
    }
    world.tokens.plan(async ({ headers }) => {
      if (!headers.get('Authorization')?.includes('stranger')) return null
      await Bun.sleep(500)
      return { kind: 'status', status: 401, ...refusal }
    })
    repeatUntilStopped(40, (turn) => askAsStranger(route(), '/v1/', turn).catch(() => {}))

    // Users who sign in now also need the token server.
    await expectNoHarm(route(), new Client(bystander.user))
  })
})

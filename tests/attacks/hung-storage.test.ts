import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { endAll } from '../support/executable.ts'
import { limits } from '../../src/load/limits.ts'
import { requestText, startAttackedWorld, type AttackedWorld, type Client } from './world.ts'

import type { Socket } from 'node:net'

let world: AttackedWorld

beforeAll(async () => {
  // As in the unit: 256 calls for the host.
  world = await startAttackedWorld({ BUN_CONFIG_MAX_HTTP_REQUESTS: '1024' })
})

afterAll(async () => {
  await world[Symbol.asyncDispose]()
  endAll()
})

const healthyCount = 50
const readsOfEach = 2
const everyMs = 1000

describe('users whose storages hang', () => {
  it.each([
    // More calls than the host may have, and more lists than may stream; tests/load/permits.test.ts has more crowds.
    ['directly', 12, 100, 'records'],
    ['directly', 12, 40, 'lists'],
    ['through HAProxy', 7, 40, 'records'],
    ['through nginx', 7, 40, 'records'],
  ])(
    'harm none of fifty healthy users with a read a second, %s: %d hung users who request %d %s each',
    async (name, hungCount, requestsOfEach, kind) => {
      const route = world.routes.find((one) => one.name === name)!
      const addUsers = (count: number, health: string) =>
        Array.from({ length: count }, (_, number) =>
          world.addUser(`${health} ${number} of ${hungCount} ${name} ${kind}`),
        )
      const [hung, healthy] = [addUsers(hungCount, 'hung'), addUsers(healthyCount, 'healthy')]
      for (const user of [...hung, ...healthy])
        expect(await user.ask(route, 'GET', user.path('tabs'))).toBe(200)
      const hungPaths = new Set(hung.map(({ user }) => `${user.uid}`))
      const over = Promise.withResolvers<void>()
      let held = 0
      world.storage.plan(async ({ path }) => {
        if (!hungPaths.has(path.split('/')[2]!)) return null
        held += 1
        await over.promise
        return { kind: 'status', status: 503, body: '0' }
      })
      const sockets: Socket[] = hung.flatMap((user) =>
        Array.from({ length: requestsOfEach }, () => {
          const socket = route.connect()
          socket.on('error', () => {})
          socket.write(
            requestText('GET', user.path('tabs', kind === 'lists' ? undefined : 'x'), user.headers),
          )
          return socket
        }),
      )
      const most = hungCount * Math.min(limits.callsPerUser, requestsOfEach)
      await eventually('the storage holds as many calls as these users may have', () => held >= most)

      const outcomes: (number | string)[] = []
      const readOften = async (user: Client, number: number) => {
        await Bun.sleep((everyMs / healthyCount) * number)
        for (let turn = 0; turn < readsOfEach; turn += 1) {
          const startedAtMs = performance.now()
          outcomes.push(await user.ask(route, 'GET', user.path('tabs')))
          await Bun.sleep(Math.max(0, everyMs - (performance.now() - startedAtMs)))
        }
      }
      await Promise.all(healthy.map(readOften))

      over.resolve()
      for (const socket of sockets) socket.destroy()
      // A call that waits for a permit of a hung user is rejected.
      expect(outcomes).toEqual(Array(healthyCount * readsOfEach).fill(200))
    },
  )
})

import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { endAll } from '../support/executable.ts'
import { requestText, startAttackedWorld, type AttackedWorld } from './world.ts'

import type { Socket } from 'node:net'

let world: AttackedWorld

beforeAll(async () => {
  // That is 44 calls for the host; the last eleven are reserved for users who have none.
  world = await startAttackedWorld({ BUN_CONFIG_MAX_HTTP_REQUESTS: '64' })
})

afterAll(async () => {
  await world[Symbol.asyncDispose]()
  endAll()
})

describe('three users whose storages hang, with 60 requests each', () => {
  it.each(['directly', 'through HAProxy', 'through nginx'])(
    'delay a bystander by less than a second, %s',
    async (name) => {
      const route = world.routes.find((one) => one.name === name)!
      const hung = [1, 2, 3].map((number) => world.addUser(`hung ${number} ${name}`))
      const bystander = world.addUser(`bystander ${name}`)
      await Promise.all([...hung, bystander].map((each) => each.ask(route, 'GET', each.path('tabs'))))
      const over = Promise.withResolvers<void>()
      let held = 0
      world.storage.plan(async ({ path }) => {
        if (!hung.some(({ user }) => path.startsWith(`/1.5/${user.uid}/`))) return null
        held += 1
        await over.promise
        return { kind: 'status', status: 503, body: '0' }
      })
      const sockets: Socket[] = Array.from({ length: 180 }, (_, index) => {
        const user = hung[index % 3]!
        const socket = route.connect()
        socket.on('error', () => {})
        socket.write(requestText('GET', user.path('tabs', 'x'), user.headers))
        return socket
      })
      await eventually('the storage holds as many calls as these users may have', () => held >= 33)

      const waitedMs: number[] = []
      let status: number | string = 200
      while (waitedMs.length < 20 && status === 200) {
        const startedAtMs = performance.now()
        status = await bystander.ask(route, 'GET', bystander.path('tabs'))
        waitedMs.push(performance.now() - startedAtMs)
      }

      over.resolve()
      for (const socket of sockets) socket.destroy()
      expect([status, waitedMs.length]).toEqual([200, 20])
      // Without a reserved permit each would wait five seconds; a busy machine may delay a few.
      expect(waitedMs.toSorted((left, right) => left - right)[10]).toBeLessThan(1000)
    },
  )
})

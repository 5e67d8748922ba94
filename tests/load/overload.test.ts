import { afterEach, describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { one, startCrowdedWorld, type CrowdedWorld } from './crowded-world.ts'

const worlds: CrowdedWorld[] = []
afterEach(() => Promise.all(worlds.splice(0).map((world) => world.stop())))

function start(...options: Parameters<typeof startCrowdedWorld>): CrowdedWorld {
  const world = startCrowdedWorld(...options)
  worlds.push(world)
  return world
}

/** Waits until earlier requests no longer count against the limit. */
async function untilAdmitted(world: CrowdedWorld, count: number): Promise<void> {
  await eventually('requests are accepted again', async () => {
    const answers = await Promise.all(
      Array.from({ length: count }, (_, index) => world.ask(`late-${index}`, one)),
    )
    return answers.every(({ status }) => status === 200)
  })
}

describe('a request above the limit', () => {
  it('gets 503 with Retry-After, in JSON, and the others succeed', async () => {
    const world = start({ maxRequests: 10 })
    const admitted = await world.crowd(10)

    const refused = await world.ask('another', one)

    expect(refused.status).toBe(503)
    expect(refused.body).toEqual({
      code: 503,
      errno: 201,
      error: 'Service Unavailable',
      message: 'Too many requests in flight: try again later',
    })
    expect(refused.headers.get('retry-after')).toBe('30')
    expect(refused.headers.get('backoff')).toBeNull()
    expect(refused.headers.get('x-request-id')).toBe('0123456789abcdef')
    expect(refused.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(refused.headers.get('cache-control')).toBe('no-cache')
    expect(refused.headers.get('vary')).toBe('Authorization, X-Client-State, X-KeyID, Origin')
    expect(refused.headers.get('x-content-type-options')).toBe('nosniff')
    world.answerAll()
    expect((await Promise.all(admitted)).map(({ status }) => status)).toEqual(Array(10).fill(200))
    expect((await world.ask('another', one)).status).toBe(200)
  })

  it('has a response that web pages can read, with the alert of every response', async () => {
    const settings = { eos: '2999-12-31', cors_origins: 'https://app.example', retry_after_seconds: '7' }
    const world = start({ maxRequests: 1 }, settings)
    await world.crowd(1)

    const refused = await world.ask('another', one, { headers: { Origin: 'https://app.example' } })
    const strange = await world.ask('another', one, { headers: { Origin: 'https://evil.example' } })

    expect(refused.status).toBe(503)
    expect(refused.headers.get('access-control-allow-origin')).toBe('https://app.example')
    expect(refused.headers.get('access-control-expose-headers')).toContain('Retry-After')
    expect(refused.headers.get('retry-after')).toBe('7')
    expect(JSON.parse(refused.headers.get('alert')!)).toMatchObject({ code: 'soft-eol' })
    expect(strange.status).toBe(503)
    expect(strange.headers.get('access-control-allow-origin')).toBeNull()
  })

  it.each([
    ['GET', ''],
    ['GET', '/collections'],
    ['GET', '/collections/tabs'],
    ['GET', '/collections/tabs/records'],
    ['HEAD', '/collections/tabs/records'],
    ['GET', one],
    ['PUT', one],
    ['DELETE', one],
    ['POST', '/v1/batch'],
  ])('is rejected before any work: %s %s', async (method, path) => {
    const world = start({ maxRequests: 1 })
    await world.crowd(1)

    const body = method === 'PUT' || method === 'POST' ? '{"data":' : null
    const refused = await world.ask('another', path, { method, body })

    expect(refused.status).toBe(503)
    expect([world.reached(), world.transacted()]).toEqual([1, 0])
    expect(world.observed).toEqual([503])
    expect(world.rejections).toEqual(['limit'])
  })

  it.each([
    ['GET', '/v1/__lbheartbeat__', 200],
    ['GET', '/v1/__heartbeat__', 200],
    ['GET', '/v1/__version__', 200],
    ['GET', '/v1/__metrics__', 200],
    ['GET', '/v1/__api__', 200],
    ['GET', '/v1/docs/', 307],
    ['GET', '/v1/', 200],
    ['GET', '/v1/nothing', 404],
    ['OPTIONS', `/v1/buckets/x${one}`, 204],
    ['OPTIONS', '/v1/batch', 204],
  ])('is accepted if it is not for user data: %s %s', async (method, path, status) => {
    const world = start({ maxRequests: 1 })
    await world.crowd(1)

    expect((await world.ask('another', path, { method })).status).toBe(status)
    expect(world.rejections).toEqual([])
  })
})

describe('a batch', () => {
  const put = {
    method: 'PUT',
    path: `/v1/buckets/0123456789abcdef0123456789abcdef${one}`,
    body: { data: {} },
  }
  const batchOf = (count: number) => ({
    method: 'POST',
    body: JSON.stringify({ requests: Array.from({ length: count }, () => put) }),
  })

  it('counts as one request, and is rejected as a whole', async () => {
    const world = start({ maxRequests: 10 })
    const others = await world.crowd(10)

    const refused = await world.ask('somebody', '/v1/batch', batchOf(11))

    expect(refused.status).toBe(503)
    expect(refused.body).toMatchObject({ errno: 201 })
    expect(refused.headers.get('retry-after')).toBe('30')
    expect([world.reached(), world.transacted()]).toEqual([10, 0])
    world.answerAll()
    await Promise.all(others)
    for (let times = 0; times < 10; times += 1)
      expect((await world.ask('somebody', '/v1/batch', batchOf(11))).status).toBe(200)
    expect(world.transacted()).toBe(110)
    await world.crowd(8, 'greedy')
    expect((await world.ask('greedy', '/v1/batch', batchOf(1))).status).toBe(503)
  })
})

describe('a user with many requests in flight', () => {
  it('is rejected above the limit of one user, while others are served', async () => {
    const world = start({ maxRequests: 20, maxRequestsPerUser: 4 })
    const greedy = await world.crowd(4, 'greedy')

    expect((await world.ask('greedy', one)).status).toBe(503)

    const modest = Array.from({ length: 3 }, () => world.ask('modest', one))
    await eventually('they wait', () => Promise.resolve(world.reached() === 7))
    world.answerAll()
    const statuses = (await Promise.all([...greedy, ...modest])).map(({ status }) => status)
    expect(statuses).toEqual(Array(7).fill(200))
    expect(world.rejections).toEqual(['user'])
  })
})

describe('the count of requests in flight', () => {
  const list = '/collections/tabs/records'

  /** A list whose first chunk has arrived. */
  async function beginList(world: CrowdedWorld, signal?: AbortSignal) {
    const response = await world.begin('reader', list, signal ? { signal } : {})
    const reader = response.body!.getReader()
    await reader.read()
    return reader
  }

  async function readAll(reader: ReadableStreamDefaultReader<unknown>): Promise<void> {
    while (!(await reader.read()).done);
  }

  it.each<[string, (world: CrowdedWorld, leaving: AbortController) => void]>([
    ['its end', (world) => world.endLists()],
    ['it broke off', (world) => world.endLists(new Error('The storage is gone'))],
    ['its reader left', (_, leaving) => leaving.abort()],
  ])('includes a streamed list until %s, also for its user', async (_, end) => {
    const world = start({ maxRequests: 5, maxRequestsPerUser: 4 })
    world.answerAll()
    const leaving = new AbortController()
    const readers = []
    for (let count = 0; count < 4; count++) readers.push(await beginList(world, leaving.signal))

    expect((await world.ask('reader', one)).status).toBe(503)
    expect((await world.ask('third', one)).status).toBe(200)

    end(world, leaving)
    await Promise.allSettled(readers.map(readAll))
    await untilAdmitted(world, 5)
    expect((await world.ask('reader', one)).status).toBe(200)
  })

  it('excludes a list whose reader had disconnected before it began', async () => {
    const world = start({ maxRequests: 5, maxRequestsPerUser: 4 })
    const leaving = new AbortController()
    const answers = [1, 2, 3, 4].map(() => world.begin('reader', list, { signal: leaving.signal }))
    await eventually('they wait', () => Promise.resolve(world.reached() === 4))
    leaving.abort()
    await Promise.allSettled(answers)

    world.answerAll()

    await untilAdmitted(world, 5)
    const more = await world.crowd(4)
    expect(more).toHaveLength(4)
    world.answerAll()
    expect((await world.ask('reader', one)).status).toBe(200)
  })

  it('includes a request whose client has disconnected until it is done', async () => {
    const world = start({ maxRequests: 5 })
    world.crowd(0)
    const leaving = new AbortController()
    const init = { method: 'PUT', body: '{"data":{}}', signal: leaving.signal }
    const puts = [1, 2, 3, 4, 5].map((user) => world.begin(`user-${user}`, one, init))
    await eventually('they wait', () => Promise.resolve(world.reached() === 5))
    leaving.abort()
    await Promise.allSettled(puts)

    expect((await world.ask('another', one)).status).toBe(503)

    world.answerAll()
    await untilAdmitted(world, 5)
    expect(world.transacted()).toBe(5)
  })

  it('excludes what ended with an error', async () => {
    const world = start({ maxRequests: 5, maxRequestsPerUser: 1 })
    world.answerAll()
    const wrong = [
      world.ask('somebody', one, { method: 'PUT', body: 'invalid JSON' }),
      world.ask('somebody', one, { headers: { 'If-Match': 'nonsense' } }),
      world.ask('some body', one),
      world.ask('somebody', '/collections', {}),
    ]

    const statuses = (await Promise.all(wrong)).map(({ status }) => status)

    expect(statuses).toEqual([400, 400, 401, 500])
    expect(world.memory.heldBytes).toBe(0)
    await untilAdmitted(world, 5)
    expect((await world.ask('somebody', one)).status).toBe(200)
  })
})

describe('Backoff', () => {
  it('is sent after five seconds of heavy load, only with successes, and ends with the load', async () => {
    const world = start({ maxRequests: 10 }, { backoff: '10' })
    const crowd = await world.crowd(9)

    world.pass(4999)
    expect((await world.ask('another', '/v1/')).headers.get('backoff')).toBe('10')
    const tenth = world.ask('tenth', one)
    await eventually('it waits, too', () => Promise.resolve(world.reached() === 10))
    world.pass(1)
    expect((await world.ask('another', '/v1/')).headers.get('backoff')).toBe('30')
    expect((await world.ask('another', '/v1/nothing')).headers.get('backoff')).toBeNull()
    world.answerAll()
    await Promise.all([...crowd, tenth])
    expect((await world.ask('another', one)).headers.get('backoff')).toBe('10')
  })
})

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, spyOn } from 'bun:test'
import { EventEmitter } from 'node:events'
import KintoClient from 'kinto-http/lib/index.js'
import { currentVersion, kintoVersions } from './offline.ts'
import { startWorld, type Person, type World } from './world.ts'

// The clients repeat every Alert on the console.
let warnings: ReturnType<typeof spyOn>
beforeEach(() => {
  warnings = spyOn(console, 'warn').mockImplementation(() => {})
})
afterEach(() => {
  warnings.mockRestore()
})

describe('a storage that fails, or has something to say', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld({ settings: { retry_after_seconds: '1' } })
  })
  afterEach(() => world.storage.plan(() => null))
  afterAll(() => world.stop())

  const failing = () => ({ kind: 'status', status: 503, body: '0' }) as const

  it('is asked once more by kinto-http, after the pause of Retry-After', async () => {
    const person = world.person()
    const { client, events } = clientOf(world, person)
    person.firefox.write('r', 'Title')
    world.storage.plan(failing)
    const pausesUntil: number[] = []
    let answeredMs = 0
    events.on('retry-after', (untilMs: number) => {
      pausesUntil.push(untilMs)
      answeredMs = Date.now()
      world.storage.plan(() => null)
    })

    const askedMs = Date.now()
    const { data } = await client.bucket(person.bucket).collection('bookmarks').listRecords({ retry: 1 })

    expect(data).toHaveLength(1)
    expect(pausesUntil).toHaveLength(1)
    // One second after the answer, which came in between.
    expect(pausesUntil[0]).toBeWithin(askedMs + 1000, answeredMs + 1001)
  })

  it('is an error in words, once there are no attempts left', async () => {
    const person = world.person()
    const { client } = clientOf(world, person)
    world.storage.plan(failing)

    const refusal = client.bucket(person.bucket).collection('bookmarks').listRecords()

    await expect(refusal).rejects.toMatchObject({
      response: { status: 503 },
      data: { code: 503, errno: 201, message: expect.any(String) },
    })
  })

  // The oldest one never asks again.
  const repeating = kintoVersions.filter((version) => version !== 'kinto 1.2.2')
  it.each([
    ['without its being told to', currentVersion, {}] as const,
    ...repeating.map((version) => ['if it is told to', version, { retry: 1 }] as const),
  ])('is asked once more, %s, by %s', async (_, version, options) => {
    const { firefox, device } = world.person()
    const phone = device({ version })
    firefox.write('r', 'Title')
    world.storage.plan(failing)
    phone.events.on('retry-after', () => world.storage.plan(() => null))

    const result = await phone.sync('manual', options)

    expect(result.ok).toBe(true)
    expect(await phone.titles()).toEqual({ r: 'Title' })
  })

  it.each(kintoVersions)('loses nothing of what %s wanted to publish', async (version) => {
    const { firefox, phone } = await world.synced({ theirs: 'Theirs' }, version)
    await phone.create('mine', 'Mine')
    await phone.edit('theirs', 'Mine')
    world.storage.plan(({ method }) => (method === 'POST' ? failing() : null))

    await expect(phone.sync('manual', { retry: 0 })).rejects.toThrow('503')
    const titlesMeanwhile = firefox.titles()
    world.storage.plan(() => null)
    const result = await phone.sync()

    expect(titlesMeanwhile).toEqual({ theirs: 'Theirs' })
    expect(result.ok).toBe(true)
    expect(firefox.titles()).toEqual({ mine: 'Mine', theirs: 'Mine' })
  })

  it('is cut off in the middle of a list, and kinto 17 keeps nothing of it', async () => {
    const { device, user } = world.person()
    const phone = device()
    world.sandbox.seed(user, 'bookmarks', 4000)
    world.storage.plan(({ target }) =>
      target.includes('/storage/') ? { kind: 'reset-mid-body', afterBytes: 900_000 } : null,
    )

    await expect(phone.sync()).rejects.toThrow()

    expect(await phone.collection.list()).toMatchObject({ data: [] })
  })

  it('has its pause obeyed by kinto-http and kinto 17', async () => {
    const person = world.person()
    const { client } = clientOf(world, person)
    const phone = person.device()
    world.storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Backoff': '3600' } }))

    await client.bucket(person.bucket).collection('bookmarks').listRecords()
    await phone.sync()

    expect(client.backoff).toBeWithin(3_000_000, 3_600_001)
    await expect(phone.sync()).rejects.toThrow('asking clients to back off')
    expect(await phone.sync('manual', { ignoreBackoff: true })).toMatchObject({ ok: true })
  })

  it('has its pause obeyed when it was asked for inside a batch', async () => {
    const person = world.person()
    const { client } = clientOf(world, person)
    await client.fetchServerInfo()
    world.storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Backoff': '3600' } }))

    await client
      .bucket(person.bucket)
      .collection('bookmarks')
      .batch((batch) => void batch.createRecord({ id: 'r', payload: 'x' }))

    expect(client.backoff).toBeWithin(3_000_000, 3_600_001)
  })

  it('has its alerts read, as text or JSON', async () => {
    const person = world.person()
    const { client, deprecations } = clientOf(world, person)
    const records = client.bucket(person.bucket).collection('bookmarks')
    const announcing = (text: string) =>
      world.storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Alert': text } }))

    announcing('This node moves on Sunday')
    await records.listRecords()
    announcing('{"code":"hard-eol","message":"The end","url":"https://example.org/"}')
    await records.listRecords()

    expect(deprecations).toMatchObject([
      { code: 'soft-eol', message: 'This node moves on Sunday' },
      { code: 'hard-eol', message: 'The end' },
    ])
  })

  it.each(kintoVersions)('has its alerts read by %s, too', async (version) => {
    const phone = world.person().device({ version })
    const deprecations: unknown[] = []
    phone.events.on('deprecated', (alert) => deprecations.push(alert))
    world.storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Alert': 'This node moves on Sunday' } }))

    const { ok } = await phone.sync()

    expect(ok).toBe(true)
    expect(deprecations[0]).toMatchObject({ code: 'soft-eol', message: 'This node moves on Sunday' })
  })
})

describe('a service that asks for a pause', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld({ settings: { backoff: '3600' } })
  })
  afterAll(() => world.stop())

  it.each(kintoVersions)('is not used by %s, unless configured', async (version) => {
    const { firefox, device } = world.person()
    const phone = device({ version })
    firefox.write('r', 'Title')

    const first = await phone.sync()

    expect(first.ok).toBe(true)
    await expect(phone.sync()).rejects.toThrow(/back(ed)? off; retry in 3[0-6]\d\ds/)
    expect(await phone.sync('manual', { ignoreBackoff: true })).toMatchObject({ ok: true })
  })
})

describe('a service that will end', () => {
  let world: World
  afterEach(() => world.stop())

  it('announces it in every response', async () => {
    const settings = {
      eos: '2099-12-31',
      eos_message: 'Moving house',
      eos_url: 'https://example.org/moving',
    }
    world = await startWorld({ settings })
    const person = world.person()
    const { client, deprecations } = clientOf(world, person)

    await client.fetchServerInfo()
    await client.bucket(person.bucket).collection('bookmarks').listRecords()

    const alert = { code: 'soft-eol', message: 'Moving house', url: 'https://example.org/moving' }
    expect(deprecations).toEqual([alert, alert])
  })

  it('says so after its end as well', async () => {
    world = await startWorld({ settings: { eos: '2020-01-01', eos_message: 'Gone' } })
    const person = world.person()
    const { client, deprecations } = clientOf(world, person)

    const refusal = client.bucket(person.bucket).collection('bookmarks').listRecords()

    await expect(refusal).rejects.toMatchObject({ data: { code: 410, errno: 202 } })
    await expect(person.device().sync()).rejects.toThrow('410')
    expect(deprecations).toMatchObject([{ code: 'hard-eol', message: 'Gone' }])
  })
})

function clientOf({ url }: World, { headers }: Person) {
  const events = new EventEmitter()
  const deprecations: unknown[] = []
  events.on('deprecated', (alert) => deprecations.push(alert))
  const client = new KintoClient(`${url}/v1`, { headers, events: events as never })
  return { client, events, deprecations }
}

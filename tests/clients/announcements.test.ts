import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, spyOn } from 'bun:test'
import { kintoVersions } from './offline.ts'
import { startWorld, type World } from './world.ts'

// The clients log every Alert to the console.
let warnings: ReturnType<typeof spyOn>
beforeEach(() => {
  warnings = spyOn(console, 'warn').mockImplementation(() => {})
})
afterEach(() => {
  warnings.mockRestore()
})

describe('a storage that fails, or sends notices', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld({ settings: { retry_after_seconds: '1' } })
  })
  afterEach(() => world.storage.plan(() => null))
  afterAll(() => world.stop())

  const failing = () => ({ kind: 'status', status: 503, body: '0' }) as const

  // The oldest client never retries, the next two only if configured.
  it.each([
    ['kinto 17.1.1', {}],
    ['kinto 12.7.0', {}],
    ['kinto 12.1.1', { retry: 1 }],
    ['kinto 9.0.2', { retry: 1 }],
  ] as const)('gets one retry from %s, with the options %j', async (version, options) => {
    const { firefox, device } = world.person()
    const phone = device({ version })
    firefox.write('r', 'Title')
    world.storage.plan(failing)
    phone.events.on('retry-after', () => world.storage.plan(() => null))

    const result = await phone.sync('manual', options)

    expect(result.ok).toBe(true)
    expect(await phone.titles()).toEqual({ r: 'Title' })
  })

  it.each(kintoVersions)('loses nothing that %s wanted to publish', async (version) => {
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

  it.each(kintoVersions)(
    'that breaks off a list: %s keeps nothing of it, and gets everything with the next sync',
    async (version) => {
      const { device, firefox } = world.person()
      const phone = device({ version })
      for (let n = 0; n < 40; n++) firefox.write(`record ${n}`, `${n} ${'x'.repeat(30_000)}`)
      world.storage.plan(({ target }) =>
        target.includes('/storage/') ? { kind: 'reset-mid-body', afterBytes: 900_000 } : null,
      )

      await expect(phone.sync()).rejects.toThrow()
      world.storage.plan(() => null)
      const meanwhile = await phone.titles()
      const result = await phone.sync()

      expect([meanwhile, result.ok]).toEqual([{}, true])
      expect(await phone.titles()).toEqual(firefox.titles())
    },
  )

  it.each(kintoVersions)('that sends alerts: %s reads them', async (version) => {
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

  it.each(kintoVersions)('is not called by %s, unless configured', async (version) => {
    const { firefox, device } = world.person()
    const phone = device({ version })
    firefox.write('r', 'Title')

    const first = await phone.sync()

    expect(first.ok).toBe(true)
    await expect(phone.sync()).rejects.toThrow(/back(ed)? off; retry in 3[0-6]\d\ds/)
    expect(await phone.sync('manual', { ignoreBackoff: true })).toMatchObject({ ok: true })
  })
})

describe('a service past its end of service', () => {
  it('says so', async () => {
    await using world = await startWorld({ settings: { eos: '2020-01-01', eos_message: 'Gone' } })
    const phone = world.person().device()
    const deprecations: unknown[] = []
    phone.events.on('deprecated', (alert) => deprecations.push(alert))

    await expect(phone.sync()).rejects.toThrow('410')

    expect(deprecations).toMatchObject([{ code: 'hard-eol', message: 'Gone' }])
  })
})

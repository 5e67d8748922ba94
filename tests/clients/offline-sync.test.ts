import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { currentVersion, kintoVersions, type Device, type KintoVersion, type Strategy } from './offline.ts'
import type { FakeFirefox } from './sealed.ts'
import { startWorld, type World } from './world.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

/** Whether the other side changes the record before the sync, or between its pull and its push. */
const moments = ['before', 'during'] as const

interface ConflictCase {
  name: string
  /** Whether the record existed and was synced before the conflict. */
  isKnown: boolean
  local(phone: Device): Promise<unknown>
  remote(firefox: FakeFirefox): void
  /** The final content everywhere if the local or the remote side wins. */
  mine: Record<string, string>
  theirs: Record<string, string>
}

const create = (phone: Device) => phone.create('r', 'Mine')
const edit = (phone: Device) => phone.edit('r', 'Mine')
const remove = (phone: Device) => phone.remove('r')
const editThere = (firefox: FakeFirefox) => firefox.write('r', 'Theirs')
const removeThere = (firefox: FakeFirefox) => firefox.remove('r')
const mine = { r: 'Mine' }
const theirs = { r: 'Theirs' }

const conflicts: ConflictCase[] = [
  { name: 'created on both sides', isKnown: false, local: create, remote: editThere, mine, theirs },
  { name: 'changed on both sides', isKnown: true, local: edit, remote: editThere, mine, theirs },
  { name: 'changed here, deleted there', isKnown: true, local: edit, remote: removeThere, mine, theirs: {} },
  { name: 'deleted here, changed there', isKnown: true, local: remove, remote: editThere, mine: {}, theirs },
]

const deletions = { isKnown: true, local: remove, remote: removeThere }

describe.each(kintoVersions)('%s', (version) => {
  it('pulls what Firefox wrote, and then only changes', async () => {
    const { firefox, device } = world.person()
    const phone = device({ version })
    firefox.write('one', 'One')
    firefox.write('-two_', 'Two')

    const first = await phone.sync()
    firefox.write('three', 'Three')
    const second = await phone.sync()

    expect([first.ok, second.ok]).toEqual([true, true])
    expect(second.created.map(({ id }) => id)).toEqual(['three'])
    expect(await phone.titles()).toEqual({ '-two_': 'Two', one: 'One', three: 'Three' })
  })

  it('publishes creations, changes and deletions, which then count as synced', async () => {
    const { firefox, phone } = await world.synced({ changed: 'Old', deleted: 'Old' }, version)

    await phone.create('created', 'New')
    await phone.edit('changed', 'New')
    await phone.remove('deleted')
    const result = await phone.sync()

    expect(result).toMatchObject({ ok: true, errors: [], conflicts: [] })
    expect(firefox.titles()).toEqual({ changed: 'New', created: 'New' })
    expect(await phone.titles()).toEqual(firefox.titles())
    expect(await phone.pending()).toEqual([])
  })

  it('can change a record again after publishing it', async () => {
    const { firefox, device } = world.person()
    const phone = device({ version })
    await phone.create('r', 'First')
    await phone.sync()

    await phone.edit('r', 'Second')
    const second = await phone.sync()
    await phone.edit('r', 'Third')
    const third = await phone.sync()

    expect([second.ok, third.ok]).toEqual([true, true])
    expect(firefox.titles()).toEqual({ r: 'Third' })
  })

  it('publishes more than fits into one batch', async () => {
    const { firefox, device } = world.person()
    const phone = device({ version })
    for (let n = 0; n < 60; n++) await phone.create(`record ${n}`, `Title ${n}`)

    const result = await phone.sync()

    expect(result.ok).toBe(true)
    expect(result.published).toHaveLength(60)
    expect(Object.keys(firefox.titles())).toHaveLength(60)
    expect(await phone.titles()).toEqual(firefox.titles())
  })

  it('keeps and reports what it is not allowed to publish', async () => {
    const { device } = world.person()
    const phone = device({ version, collection: 'history' })
    await phone.create('r', 'Mine')

    const result = await phone.sync()

    expect(result.ok).toBe(false)
    expect(result.errors).toHaveLength(1)
    expect(await phone.pending()).toEqual(['r'])
  })

  it.each(['client_wins', 'server_wins'] as const)(
    'agrees about a record that was deleted on both sides (%s)',
    async (strategy) => {
      const { phone, firefox, collide } = await prepare(version, deletions)

      const result = await collide('before', strategy)

      expect(result.ok).toBe(true)
      expect([firefox.titles(), await phone.titles()]).toEqual([{}, {}])
      expect(await phone.pending()).toEqual([])
    },
  )

  describe.each(conflicts)('$name', (conflict) => {
    it.each(moments)('manual: reports both sides, and publishes the resolution (%s)', async (moment) => {
      const { phone, firefox, collide } = await prepare(version, conflict)

      const result = await collide(moment, 'manual')
      const [found] = result.conflicts
      await phone.collection.resolve(found!, found!.local)
      // The old client pulls the same version again, and then reports the conflict that was already resolved.
      const after = await phone.sync(version === 'kinto 1.2.2' ? 'client_wins' : 'manual')

      expect(result.ok).toBe(false)
      expect(result.conflicts).toHaveLength(1)
      expect(found).toMatchObject({ local: { id: 'r' }, remote: { id: 'r' } })
      expect(after).toMatchObject({ ok: true, conflicts: [] })
      expect(firefox.titles()).toEqual(conflict.mine)
      expect(await phone.titles()).toEqual(conflict.mine)
    })

    it.each(
      moments.flatMap((moment) => [
        ['client_wins', conflict.mine, moment] as const,
        ['server_wins', conflict.theirs, moment] as const,
      ]),
    )('%s: shows %j everywhere after the same sync (%s)', async (strategy, winner, moment) => {
      const { phone, firefox, collide } = await prepare(version, conflict)

      const result = await collide(moment, strategy)

      expect(result).toMatchObject({ ok: true, conflicts: [] })
      expect(firefox.titles()).toEqual(winner)
      expect(await phone.titles()).toEqual(winner)
      expect(await phone.pending()).toEqual([])
    })
  })
})

describe(currentVersion, () => {
  it('switches accounts when its headers and its bucket change', async () => {
    const alice = world.person()
    const bob = world.person()
    alice.firefox.write('r', 'Of Alice')
    bob.firefox.write('r', 'Of Bob')
    const phone = alice.device()
    await phone.sync()

    const ofBob = phone.become(bob)
    const result = await ofBob.sync()

    expect(result.ok).toBe(true)
    expect((await ofBob.list()).data).toMatchObject([{ id: 'r', title: 'Of Bob' }])
    expect(await phone.titles()).toEqual({ r: 'Of Alice' })
    await expect(phone.sync()).rejects.toThrow('401')
  })

  it('misses a write to its own record between its push and its last pull, but never overwrites it', async () => {
    const { firefox, device } = world.person()
    const phone = device()
    await phone.create('r', 'Mine')
    phone.afterPush(() => firefox.write('r', 'Theirs'))

    const first = await phone.sync()
    const missed = await phone.titles()
    await phone.edit('r', 'Mine again')
    const second = await phone.sync()

    expect(first.ok).toBe(true)
    expect(missed).toEqual({ r: 'Mine' })
    expect(second.conflicts).toMatchObject([{ local: { title: 'Mine again' }, remote: { title: 'Theirs' } }])
    expect(firefox.titles()).toEqual({ r: 'Theirs' })
  })

  it.each(['manual', 'server_wins'] as const)(
    'client_wins: publishes twice, with its own record at the next sync (%s), if another client wrote in between',
    async (strategy) => {
      const { firefox, device } = world.person()
      const phone = device()
      await phone.create('r', 'Mine')
      firefox.write('r', 'Theirs')
      phone.afterPush(() => firefox.write('r', 'Theirs again'))

      const first = await phone.sync('client_wins')
      const storedMeanwhile = firefox.titles()
      const pendingMeanwhile = await phone.pending()
      const second = await phone.sync(strategy)

      expect([first.ok, second.ok]).toEqual([true, true])
      expect(storedMeanwhile).toEqual({ r: 'Theirs again' })
      expect(pendingMeanwhile).toEqual(['r'])
      expect(firefox.titles()).toEqual({ r: 'Mine' })
      expect(await phone.pending()).toEqual([])
    },
  )
})

async function prepare(
  version: KintoVersion,
  { isKnown, local, remote }: Pick<ConflictCase, 'isKnown' | 'local' | 'remote'>,
) {
  const { firefox, device } = world.person()
  const phone = device({ version })
  if (isKnown) firefox.write('r', 'Old')
  await phone.sync()
  await local(phone)
  return {
    phone,
    firefox,
    collide(moment: (typeof moments)[number], strategy: Strategy) {
      if (moment === 'before') remote(firefox)
      else phone.beforePush(() => remote(firefox))
      return phone.sync(strategy)
    },
  }
}

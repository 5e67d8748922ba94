import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import type { Device, Strategy } from './offline.ts'
import { startWorld, type Person, type World } from './world.ts'

const interleavings = 50
// A fixed seed, so that the result is reproducible; set CLIENTS_SEED to try others.
const seed = Number(process.env.CLIENTS_SEED ?? 745_342_122)
const ids = ['a', 'b', '-c_', '{d}']

type DeviceName = 'phone' | 'tablet'
type Deed = { deed: 'write' | 'remove'; id: string }
/** What Firefox does between a device's pull and its push; with `isAimed`, to one of the records being published. */
type Meanwhile = Deed & { isAimed: boolean }
type Sync = { deed: 'sync'; strategy: Strategy; keepsOwn: boolean; meanwhile: Meanwhile | null }
type Step = { who: DeviceName; what: Deed | Sync } | { who: 'firefox'; what: Deed }

const cast = <Value>(...values: Value[]) => fc.constantFrom(...values)

const deed = { deed: cast<Deed['deed']>('write', 'write', 'remove'), id: cast(...ids) }
const someDeed: fc.Arbitrary<Deed> = fc.record(deed)
const someSync: fc.Arbitrary<Sync> = fc.record({
  deed: fc.constant('sync' as const),
  strategy: cast<Strategy>('manual', 'client_wins', 'server_wins'),
  keepsOwn: fc.boolean(),
  meanwhile: fc.option(fc.record({ ...deed, isAimed: fc.boolean() }), { freq: 3 }),
})
const someStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ who: fc.constant('firefox' as const), what: someDeed }),
  fc.record({ who: cast<DeviceName>('phone', 'tablet'), what: someDeed }),
  fc.record({ who: cast<DeviceName>('phone', 'tablet'), what: someSync }),
)

describe('two devices with kinto 17, and a Firefox', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld()
  })
  afterAll(() => world.stop())

  // Fewer on a slow machine.
  it(`agree after ${interleavings} interleavings, and no successful sync lost anything (CLIENTS_SEED=${seed})`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(someStep, { minLength: 4, maxLength: 16 }), async (steps) => {
        const sharedAccount = new SharedAccount(world, world.person())
        for (const step of steps) await sharedAccount.take(step)
        await sharedAccount.settle()
      }),
      { seed, numRuns: interleavings, interruptAfterTimeLimit: 60_000 },
    )
  })
})

/** Three clients of one account, and the invariants that must hold. */
class SharedAccount {
  readonly #devices: Record<DeviceName, Device>
  #titles = 0

  constructor(
    private readonly world: World,
    private readonly person: Person,
  ) {
    this.#devices = { phone: person.device(), tablet: person.device() }
  }

  async take(step: Step): Promise<void> {
    if (step.who === 'firefox') return this.#asFirefox(step.what)
    const device = this.#devices[step.who]
    if (step.what.deed === 'sync') return this.#sync(device, step.what)
    await this.#change(device, step.what)
  }

  /** Lets all clients publish and pull until nothing is left to sync; then all must show the same. */
  async settle(): Promise<void> {
    const { phone, tablet } = this.#devices
    for (const device of [phone, tablet, phone, tablet]) {
      const result = await device.sync('client_wins')
      expect(result).toMatchObject({ ok: true, conflicts: [], errors: [] })
    }
    const shown = sorted(this.person.firefox.titles())
    expect({ phone: await phone.titles(), tablet: await tablet.titles() }).toEqual({
      phone: shown,
      tablet: shown,
    })
  }

  #asFirefox({ deed, id }: Deed): void {
    if (deed === 'write') this.person.firefox.write(id, this.#newTitle())
    else this.person.firefox.remove(id)
  }

  async #change(device: Device, { deed, id }: Deed): Promise<void> {
    const isShown = id in (await device.titles())
    const { data } = await device.collection.list()
    if (deed === 'remove') {
      if (isShown) await device.remove(id)
    } else if (data.some((record) => record.id === id)) await device.edit(id, this.#newTitle())
    else await device.create(id, this.#newTitle())
  }

  async #sync(device: Device, { strategy, keepsOwn, meanwhile }: Sync): Promise<void> {
    const pending = await device.pending()
    const own = await device.titles()
    const agreed = this.#agreed(device, pending, own)
    const unseen = await this.#unseen(device, pending)
    let disturbed: string | null = null
    if (meanwhile)
      device.beforePush(() => {
        const id = meanwhile.isAimed ? pending[ids.indexOf(meanwhile.id) % pending.length]! : meanwhile.id
        disturbed = id
        this.#asFirefox({ deed: meanwhile.deed, id })
        if (pending.includes(id)) unseen.add(id)
        before = this.#payloads()
      })
    let before = this.#payloads()

    const result = await device.sync(strategy)

    device.beforePush(null)
    const after = this.#payloads()
    expect(result.errors).toEqual([])
    // Only a client with client_wins may overwrite changes that it has not seen, and none may overwrite what it agrees with.
    const kept = strategy === 'client_wins' ? agreed : agreed.union(unseen)
    for (const id of kept) expect([id, after[id]]).toEqual([id, before[id]])
    if (result.ok)
      await this.#checkNothingIsLost({ device, strategy, pending, own, agreed, unseen, disturbed })
    for (const conflict of result.conflicts) {
      await device.collection.resolve(conflict, keepsOwn ? conflict.local : conflict.remote!)
    }
  }

  async #checkNothingIsLost(sync: {
    device: Device
    strategy: Strategy
    pending: string[]
    own: Record<string, string>
    agreed: Set<string>
    unseen: Set<string>
    /** The record that Firefox wrote between the pull and the push. */
    disturbed: string | null
  }): Promise<void> {
    const { device, strategy, pending, own, agreed, unseen, disturbed } = sync
    const stored = this.person.firefox.titles()
    expect(await device.pending()).toEqual([])
    for (const id of pending) {
      // A record that both sides agree on is not published: what Firefox writes after the pull is newer and stays.
      const mayLose = agreed.has(id) || (strategy === 'server_wins' && unseen.has(id))
      if (!mayLose) expect([id, stored[id]]).toEqual([id, own[id]])
    }
    // What Firefox wrote after the pull may arrive with the next one; everything else is shown.
    const shown = await device.titles()
    if (disturbed !== null) for (const titles of [shown, stored]) delete titles[disturbed]
    expect(shown).toEqual(sorted(stored))
  }

  /**
   * The records that the next pull returns with exactly the content that the device has yet to publish. Titles are never reused, so both
   * sides have deleted them. kinto.js then considers the device's version synced.
   */
  #agreed(device: Device, pending: string[], own: Record<string, string>): Set<string> {
    const shown = this.person.firefox.titles()
    const pulled = this.world.sandbox
      .records(this.person.user, 'bookmarks')
      .filter(({ modified }) => modified > (device.collection.lastModified ?? 0))
    const agreed = pulled.filter(({ id }) => pending.includes(id) && shown[id] === own[id])
    return new Set(agreed.map(({ id }) => id))
  }

  /** The records that are stored in a version other than the one that the device knows. */
  async #unseen(device: Device, pending: string[]): Promise<Set<string>> {
    const { data } = await device.collection.list({}, { includeDeleted: true })
    const known = new Map(data.map(({ id, last_modified }) => [id, last_modified]))
    const stored = this.world.sandbox.records(this.person.user, 'bookmarks')
    const unseen = stored.filter(({ id, modified }) => pending.includes(id) && known.get(id) !== modified)
    return new Set(unseen.map(({ id }) => id))
  }

  #payloads(): Record<string, string> {
    const stored = this.world.sandbox.records(this.person.user, 'bookmarks')
    return Object.fromEntries(stored.map(({ id, payload }) => [id, payload]))
  }

  #newTitle(): string {
    return `title ${++this.#titles}`
  }
}

function sorted(titles: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(titles).toSorted())
}

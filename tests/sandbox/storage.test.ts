import { describe, expect, it } from 'bun:test'
import { connect, signed } from './sync-client.ts'

interface Listed {
  id: string
  payload: string
}

describe('sandbox, its clock', () => {
  it('fact 39: every response has an X-Weave-Timestamp that is not older than X-Last-Modified', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.nowMs -= 5000

    const answers = [
      await sync.get('/storage/tabs'),
      await sync.get('/storage/tabs/missing'),
      await sync.get('/storage/tabs?limit=x'),
      await sync.put('/storage/tabs', {}),
    ]

    const [now, written] = [sync.stamp(), sync.stamp(5000)]
    expect(answers.map(({ headers }) => headers.get('X-Weave-Timestamp'))).toEqual([written, now, now, now])
  })
})

describe('sandbox, with an invalid signature', () => {
  it('fact 107: a batch of another user is 400', async () => {
    await using sync = await connect()
    const token = await sync.signIn(sync.sandbox.addUser('bob'))
    const start = await sync.post('/storage/tabs?batch=true', [{ id: 'a' }])
    const { batch } = start.json() as { batch: string }

    const headers = { 'Content-Type': 'application/json' }
    const answer = await sync.send('POST', `/storage/tabs?batch=${batch}`, { token, body: '[]', headers })

    expect([answer.status, answer.text]).toEqual([400, '0'])
  })
})

describe('sandbox, batches', () => {
  it('are deleted two hours after their start, when the next one starts', async () => {
    await using sync = await connect()
    const start = async () =>
      (await sync.post('/storage/tabs?batch=true', [{ id: 'a' }])).json() as { batch: string }
    const twoHoursMs = 2 * 3600 * 1000
    const old = await start()
    sync.later(twoHoursMs)
    sync.token = await sync.signIn(sync.user)
    const recent = await start()

    // With the clock put back, only a forgotten batch is rejected.
    sync.later(-twoHoursMs)
    const answers = [old, recent].map(({ batch }) => sync.post(`/storage/tabs?batch=${batch}`, []))
    const statuses = (await Promise.all(answers)).map(({ status }) => status)

    expect(statuses).toEqual([400, 202])
  })
})

describe('sandbox, a list that is read slowly', () => {
  it('shows a slow reader the list as of the request', async () => {
    await using sync = await connect()
    sync.sandbox.seed(sync.user, 'tabs', 5000, { payloadBytes: 4000 })
    const response = await fetch(...signed(sync, 'GET', '/storage/tabs?full=1'))

    sync.sandbox.write(sync.user, 'tabs', [{ id: 'late', payload: 'x' }])
    sync.sandbox.remove(sync.user, 'tabs')
    const records = (await response.json()) as Listed[]

    expect([records.length, sync.sandbox.records(sync.user, 'tabs')]).toEqual([5000, []])
  })
})

describe('sandbox, with two writers to a collection that has never been written to', () => {
  async function race(mode: 'postgres' | 'mysql', isPrepared: boolean) {
    await using sync = await connect({ mode })
    const since = { 'X-If-Unmodified-Since': '0' }
    if (isPrepared) {
      await sync.delete('/storage/tabs?ids=none', since)
      sync.later()
    }
    sync.sandbox.switches.onFirstWrite = meeting(2)
    const put = (payload: string) => sync.put('/storage/tabs/a', { payload }, since)

    const first = put('first')
    if (isPrepared) await first
    sync.later()
    const statuses = (await Promise.all([first, put('second')])).map(({ status }) => status)

    return { statuses: statuses.toSorted(), records: sync.sandbox.records(sync.user, 'tabs').length }
  }

  it.each([
    ['over PostgreSQL both get 200 and one record is lost', 'postgres', false, [200, 200]],
    ['over MariaDB one of them gets 500', 'mysql', false, [200, 500]],
    ['one of them is refused once the row of the collection is there', 'postgres', true, [200, 412]],
  ] as const)('%s', async (_, mode, isPrepared, statuses) => {
    expect(await race(mode, isPrepared)).toEqual({ statuses: [...statuses], records: 1 })
  })

  it("over PostgreSQL can decrease the collection's timestamp", async () => {
    await using sync = await connect()
    const [early, hasLooked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    sync.sandbox.switches.onFirstWrite = () => {
      hasLooked.resolve()
      return early.promise
    }
    const slow = sync.put('/storage/tabs/a', { payload: 'early' })
    await hasLooked.promise
    sync.sandbox.switches.onFirstWrite = null
    sync.later(50)
    const quick = await sync.put('/storage/tabs/b', { payload: 'late' })
    early.resolve()
    const late = await slow

    expect([quick.modified, late.modified]).toEqual([sync.stamp(), sync.stamp(-50)])
    expect((await sync.get('/storage/tabs')).modified).toBe(sync.stamp(-50))
  })
})

/** Creates a function that waits until that many callers have called it. */
function meeting(size: number): () => Promise<void> {
  const all = Promise.withResolvers<void>()
  let present = 0
  return () => {
    present += 1
    if (present === size) all.resolve()
    return all.promise
  }
}

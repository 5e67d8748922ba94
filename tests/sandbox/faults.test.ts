import { describe, expect, it } from 'bun:test'
import { startFaultProxy, type Fault, type FaultProxy, type ProxiedRequest } from '../support/fault-proxy.ts'
import { connect, type SyncClient } from './sync-client.ts'

const unless = 'X-If-Unmodified-Since'

/** A sandbox whose node stands behind a proxy. */
async function connectBehind(): Promise<SyncClient & { proxy: FaultProxy }> {
  const sync = await connect()
  const proxy = await startFaultProxy({ target: sync.sandbox.storageUrl })
  sync.sandbox.switches.nodeUrl = proxy.url
  sync.token = await sync.signIn(sync.user)
  const stop = sync[Symbol.asyncDispose].bind(sync)
  return Object.assign(sync, {
    proxy,
    async [Symbol.asyncDispose]() {
      await proxy.stop()
      await stop()
    },
  })
}

const isCommit = ({ method, query }: ProxiedRequest) => method === 'POST' && query.get('commit') === 'true'

describe('token server behind a fault proxy', () => {
  it('fact 21: answers 503 of any form, delays, and adds backoff to success', async () => {
    await using sync = await connect()
    const proxy = await startFaultProxy({ target: sync.sandbox.tokenServerUrl })
    const headers = { Authorization: `Bearer ${sync.user.bearerToken()}`, 'X-KeyID': sync.user.keyId }
    const faults: Fault[] = [
      { kind: 'status', status: 503, headers: { 'Retry-After': '30' }, body: '<html>' },
      { kind: 'rewrite', headers: { 'X-Backoff': '9' } },
      { kind: 'delay', ms: 1 },
    ]
    proxy.plan(({ index }) => faults[index] ?? null)

    const answers: Response[] = []
    for (let index = 0; index < 3; index += 1) {
      answers.push(await fetch(`${proxy.url}/1.0/sync/1.5`, { headers }))
    }
    const token = (await answers[1]?.json()) as { uid: number }
    await proxy.stop()

    expect(answers.map(({ status }) => status)).toEqual([503, 200, 200])
    expect(answers[0]?.headers.get('Retry-After')).toBe('30')
    expect(answers[1]?.headers.get('X-Backoff')).toBe('9')
    expect(token.uid).toBe(sync.user.uid)
  })
})

describe('storage behind a fault proxy', () => {
  it('fact 114: an answer is lost after the write was applied', async () => {
    await using sync = await connectBehind()
    sync.proxy.plan(({ method }) => (method === 'POST' ? { kind: 'status-after', status: 502 } : null))

    const answer = await sync.post('/storage/tabs', [{ id: 'a', payload: 'x' }], { [unless]: '0' })
    sync.proxy.plan(() => null)
    sync.later()
    const repeated = await sync.post('/storage/tabs', [{ id: 'a', payload: 'x' }], { [unless]: '0' })

    expect([answer.status, repeated.status]).toEqual([502, 412])
    expect(sync.sandbox.records(sync.user, 'tabs')).toHaveLength(1)
  })

  it('fact 115: conflicts come in a burst', async () => {
    await using sync = await connectBehind()
    const conflict = { kind: 'status', status: 503, headers: { 'Retry-After': '10' }, body: '0' } as const
    sync.proxy.plan(({ index }) => (index < 3 ? conflict : null))

    const statuses: number[] = []
    for (let index = 0; index < 4; index += 1) statuses.push((await sync.put('/storage/tabs/a', {})).status)

    expect(statuses).toEqual([503, 503, 503, 200])
  })

  it('fact 115: 401 once', async () => {
    await using sync = await connectBehind()
    sync.proxy.plan(({ index }) => (index === 0 ? { kind: 'status', status: 401, body: '0' } : null))

    const statuses = [(await sync.get('/storage/tabs')).status, (await sync.get('/storage/tabs')).status]

    expect(statuses).toEqual([401, 200])
  })

  it('fact 115: every conditional write meets another one: a storm of 412', async () => {
    await using sync = await connectBehind()
    let writes = 0
    sync.proxy.plan(({ method }) => {
      writes += 1
      if (method === 'POST') sync.sandbox.write(sync.user, 'tabs', [{ id: `other${writes}` }])
      return null
    })

    const statuses: number[] = []
    for (let index = 0; index < 3; index += 1) {
      const { modified } = await sync.get('/storage/tabs')
      statuses.push((await sync.post('/storage/tabs', [{ id: 'a' }], { [unless]: modified ?? '' })).status)
    }

    expect(statuses).toEqual([412, 412, 412])
  })

  it('fact 115: the commit of one collection fails', async () => {
    await using sync = await connectBehind()
    sync.proxy.plan((request) =>
      isCommit(request) && request.path.endsWith('/history')
        ? { kind: 'status', status: 500, body: '0' }
        : null,
    )
    const start = async (name: string) => {
      const answer = await sync.post(`/storage/${name}?batch=true`, [{ id: 'a' }])
      return (answer.json() as { batch: string }).batch
    }
    const [tabs, history] = [await start('tabs'), await start('history')]

    const statuses = [
      (await sync.post(`/storage/tabs?batch=${tabs}&commit=true`, [])).status,
      (await sync.post(`/storage/history?batch=${history}&commit=true`, [])).status,
    ]

    expect(statuses).toEqual([200, 500])
    expect(['tabs', 'history'].map((name) => sync.sandbox.records(sync.user, name).length)).toEqual([1, 0])
  })

  it('fact 115: DELETE fails after POST', async () => {
    await using sync = await connectBehind()
    sync.proxy.plan(({ method }) => (method === 'DELETE' ? { kind: 'status', status: 503, body: '0' } : null))

    const posted = await sync.post('/storage/tabs', [{ id: 'a' }])
    const deleted = await sync.delete('/storage/tabs?ids=b')

    expect([posted.status, deleted.status]).toEqual([200, 503])
  })

  it('fact 115: a collection wiped between snapshot and commit lets a condition pass', async () => {
    await using sync = await connectBehind()
    sync.sandbox.write(sync.user, 'tabs', [{ id: 'a', payload: 'x' }])
    const { modified } = await sync.get('/storage/tabs?full=1')
    sync.proxy.plan(({ method }) => {
      if (method === 'POST') sync.sandbox.remove(sync.user, 'tabs')
      return null
    })

    const answer = await sync.post('/storage/tabs', [{ id: 'b' }], { [unless]: modified ?? '' })

    expect(answer.status).toBe(200)
    expect(sync.sandbox.records(sync.user, 'tabs').map(({ id }) => id)).toEqual(['b'])
  })
})

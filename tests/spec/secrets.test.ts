import { describe, expect, it } from 'bun:test'
import type { Answer, AskInit } from '../support/bridge.ts'
import { startFaultProxy, type Fault } from '../support/fault-proxy.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { putOf } from './expectations.ts'
import { openWorld } from './world.ts'

const { bridge, storage, bucket, batch, send } = await openWorld({
  writable: ['history'],
  settings: { max_request_bytes: '100000', request_timeout_seconds: '2' },
  commitPatienceMs: 100,
})
const answers: Answer[] = []
let newcomers = 0
const records = '/collections/history/records'

/** What nobody but the user and upstream may see, by what it is. */
const secrets = new Map<string, string>()
const canary = (name: string): string => {
  const text = `canary-${name}-${crypto.randomUUID()}`
  secrets.set(name, text)
  return text
}

const ask = async (path: string, init?: AskInit): Promise<Answer> => {
  const answer = await bridge.ask(path, init)
  answers.push(answer)
  return answer
}

/** Asks as somebody new on a node that fails: one that others have seen fail would be left alone, and say nothing. */
async function askOverNew(
  fault: Fault,
  request: (user: SandboxUser) => [path: string, init?: AskInit],
): Promise<Answer> {
  const { sandbox } = bridge
  const node = await startFaultProxy({ target: sandbox.storageUrl })
  node.plan(({ path }) => (path.includes('/storage/') ? fault : null))
  sandbox.switches.nodeUrl = node.url
  const user = sandbox.addUser(`newcomer ${(newcomers += 1)}`)
  sandbox.write(user, 'history', [{ id: 'own', payload: 'x' }])
  const [path, init] = request(user)
  const answer = await ask(path, { ...init, as: user })
  expect(node.requests.length).toBeGreaterThan(0)
  sandbox.switches.nodeUrl = storage.url
  await node.stop()
  return answer
}

/** Everything that the bridge told anybody who is not the user: logs, and what errors say. */
function told(): string {
  const errors = answers.filter(({ status }) => status >= 300)
  return JSON.stringify([bridge.logs, errors.map(({ text, headers }) => [text, headers.toJSON()])])
}

function expectNothingTold(): void {
  const text = told()
  const found = [...secrets].filter(([, secret]) => text.includes(secret)).map(([name]) => name)
  expect(found).toEqual([])
}

const listOf = (lastModified: string, body: string): Fault => ({
  kind: 'status',
  status: 200,
  headers: { 'X-Last-Modified': lastModified },
  body,
})

describe('secrets', () => {
  it('are not told by successful requests', async () => {
    const data = { payload: canary('payload'), sortindex: 1 }
    const [scheme, token] = bridge.identityOf(bridge.user).Authorization!.split(' ')
    expect(scheme).toBe('Bearer')
    secrets.set('access token', token!)
    secrets.set('key id', bridge.user.keyId)
    secrets.set('client state', bridge.user.clientState)

    const put = await ask(`${records}/${canary('record id')}`, putOf(data))
    const list = await ask(records)
    await ask('/v1/', {})
    await ask('/v1/batch', { method: 'POST', body: { requests: [{ path: bucket + records }] } })

    expect([put.status, list.status]).toEqual([200, 200])
    expect(list.text).toContain(secrets.get('payload')!)
    for (const { headers } of bridge.sandbox.requests.storage.entries) {
      secrets.set('Hawk header', headers.get('authorization')!)
      const [, id] = /id="([^"]+)"/.exec(headers.get('authorization')!)!
      secrets.set('Hawk id', id!)
    }
    expect(bridge.logs.length).toBeGreaterThan(5)
    expectNothingTold()
  })

  it('are not told by requests that are refused', async () => {
    const paths = [
      `/v1/${canary('unknown path')}`,
      `${records}?_since=${canary('since')}`,
      `${records}?_token=${canary('token')}`,
      `${records}?_sort=${canary('sort')}&in_ids=${canary('ids')}%00`,
      `${records}/${canary('bad id')}%00`,
      `/collections/${canary('collection')}/records`,
    ]
    for (const path of paths) expect((await ask(path)).status).toBeOneOf([400, 404])
    const headers: Record<string, string>[] = [
      { Authorization: `Basic ${canary('password')}` },
      { Authorization: `Bearer ${canary('refused token')}` },
      { Authorization: `BrowserID ${canary('refused assertion')}` },
      { Authorization: `BrowserID ${canary('two words')} x` },
      { 'X-KeyID': canary('refused key id') },
      { 'If-Match': canary('if-match') },
      { 'If-None-Match': `"${canary('if-none-match')}"` },
      { Origin: `https://${canary('origin')}${'x'.repeat(1100)}` },
    ]
    for (const sent of headers) expect((await ask(records, { headers: sent })).status).toBeOneOf([400, 401])
    const bodies: unknown[] = [
      canary('plain body'),
      `{"data":{"payload":"${canary('cut body')}"`,
      { data: { payload: { deep: canary('payload of a wrong type') } } },
      { data: { sortindex: canary('weight of a wrong type'), payload: canary('good payload') } },
      { data: { payload: canary('payload beside'), other: canary('unknown member') } },
      { data: { payload: 'x'.repeat(100_001) + canary('too large') } },
    ]
    for (const body of bodies) {
      const { status } = await ask(`${records}/x`, { method: 'PUT', body })
      expect(status).toBeOneOf([400, 413])
    }
    const shut = await ask('/collections/tabs/records/x', putOf({ payload: canary('gate') }))
    expect(shut.status).toBe(405)

    expectNothingTold()
  })

  it('are not told by batches, whatever is wrong with them', async () => {
    const bodies: unknown[] = [
      { requests: [{ path: canary('batch path') }] },
      { requests: [{ path: '/', method: canary('batch method') }] },
      { requests: [{ path: '/', headers: { Authorization: `${canary('batch header')}\n` } }] },
      { requests: [{ path: '/', body: canary('batch body') }] },
      { requests: canary('batch requests') },
    ]
    for (const body of bodies) expect((await ask('/v1/batch', { method: 'POST', body })).status).toBe(400)

    const { status, body } = await batch({
      requests: [
        { path: '/', headers: { Authorization: `Bearer ${canary('sub-token')}` } },
        { path: bucket, headers: { Authorization: `Bearer ${canary('refused sub-token')}` } },
        { path: `${bucket}${records}/x`, ...putOf({ payload: [canary('sub-payload')] }) },
      ],
    })
    expect(status).toBe(200)
    const shown = JSON.stringify(body)
    for (const name of ['sub-token', 'refused sub-token', 'sub-payload']) {
      expect(shown).not.toContain(secrets.get(name)!)
    }

    expectNothingTold()
  })

  it.each([
    { kind: 'status', status: 500, body: 'canary-upstream' },
    { kind: 'status', status: 503, headers: { 'X-Debug': 'canary-upstream' }, body: '"canary-upstream"' },
    { kind: 'status', status: 400, body: '"canary-upstream"' },
    { kind: 'status', status: 401, body: '"canary-upstream"' },
    { kind: 'status', status: 307, headers: { Location: 'http://127.0.0.1:1/canary-upstream' } },
    listOf('canary-upstream', 'canary-upstream'),
    listOf('1.00', '{"id":"canary-upstream"}\n'),
    { kind: 'garbage' },
    { kind: 'reset-before' },
    { kind: 'reset-after' },
    { kind: 'truncate', afterBytes: 5 },
  ] satisfies Fault[])('are not told when the storage breaks: %j', async (fault) => {
    secrets.set('upstream', 'canary-upstream')
    const id = canary('id of a failed write')
    const put = putOf({ payload: canary('payload of a failed write') })

    const [read, one, write, removal, batch] = [
      await askOverNew(fault, () => [records]),
      await askOverNew(fault, () => [`${records}/${id}`]),
      await askOverNew(fault, () => [`${records}/${id}`, put]),
      await askOverNew(fault, () => [`${records}/${id}`, { method: 'DELETE' }]),
      await askOverNew(fault, ({ clientState }) => {
        const requests = [{ ...put, path: `/buckets/${clientState}${records}/${id}` }]
        return ['/v1/batch', { method: 'POST', body: { requests } }]
      }),
    ]

    for (const { status } of [read, one, write, removal]) expect(status).toBeGreaterThanOrEqual(400)
    expect(batch.status).toBeOneOf([200, 503])
    expectNothingTold()
  })

  it('are not told by an assertion that the token server can not read', async () => {
    const assertion = bridge.user.assertion({ audience: 'https://elsewhere.example' })
    secrets.set('assertion', assertion)
    const headers = {
      Authorization: `BrowserID ${assertion}`,
      'X-Client-State': canary('client state sent').slice(0, 32),
    }

    const refused = await ask(records, { headers })
    const legacy = await ask(`/v1/buckets/${canary('legacy bucket')}${records}`, { headers })

    expect([refused.status, legacy.status]).toEqual([401, 401])
    expectNothingTold()
  })

  it('are not told by what the parser turns away', async () => {
    const lines = [`Host: ${canary('host')} x`, `Authorization: Bearer ${canary('authorization')}`]

    const answer = await send('GET', '/v1/', { as: null, lines })

    expect(answer.status).toBe(400)
    expect(answer.text).not.toContain('canary')
    expectNothingTold()
  })
})

import { afterAll, describe, expect, it } from 'bun:test'
import { accountOf, encrypted } from '../support/records.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { accountFile, runWith } from '../cli/data/world.ts'
import { idsOf } from '../cli/data/backup-world.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { startFaultyBridge } from './faulty-bridge.ts'
import type { ClearRecord } from '../../src/client/crypto.ts'

const bridge = await startFaultyBridge({ writable: ['forms', 'bookmarks'] })
const proxy = await startFaultProxy({ target: bridge.url })
const { sandbox } = bridge
afterAll(async () => {
  await proxy.stop()
  await bridge.stop()
  endAll()
})

/** A user whose backup has 40 records that the storage does not have any more; one is "bad", and has these fields. */
async function someone(collection: string, bad: object = {}) {
  const user = sandbox.addUser(`refused ${crypto.randomUUID()}`)
  fillSampleData(sandbox, user, { isEmpty: true })
  const ids = [...idsOf(39), 'bad']
  const clearOf = (id: string): ClearRecord =>
    collection === 'forms'
      ? { id, name: id, value: id }
      : { id, type: 'bookmark', title: id, bmkUri: `https://${id}.example/`, parentid: 'unfiled', tags: [] }
  const records = ids.map((id) =>
    encrypted(sandbox, user, collection, { ...clearOf(id), ...(id === 'bad' && bad) }),
  )
  if (collection === 'bookmarks')
    records.push(
      encrypted(sandbox, user, collection, {
        id: 'unfiled',
        type: 'folder',
        parentid: 'places',
        children: ids,
      }),
    )
  sandbox.write(user, collection, await Promise.all(records))
  const account = accountFile({ ...accountOf(user), BRIDGE_URL: proxy.url })
  const folder = makeFolder()
  await runWith(account, ['backup', folder])
  sandbox.remove(user, collection)
  return {
    user,
    restore: () => runWith(account, ['restore', folder, collection, '--write']),
    stored: () =>
      sandbox
        .records(user, collection)
        .map(({ id }) => id)
        .filter((id) => ids.includes(id)),
    ids,
  }
}

describe('a restore of which the storage refuses a part', () => {
  it.each([
    ['forms', 400],
    ['bookmarks', 413],
  ])('writes the rest, and names the refused record: %s, %d', async (collection, status) => {
    const { user, restore, stored, ids } = await someone(collection)
    bridge.planFor(user, ({ method, body }) =>
      method === 'POST' && body.includes('"id":"bad"') ? { kind: 'status', status, body: '0' } : null,
    )

    const { errors, code } = await restore()

    expect(errors).toMatch(new RegExp(String.raw`^  1 rejected \(${status} .+\): bad$`, 'm'))
    expect(stored().toSorted()).toEqual(ids.filter((id) => id !== 'bad').toSorted())
    expect(code).toBe(3)
  })

  it('writes the rest of a strict transaction again without the one record that is too large', async () => {
    const { restore, stored, ids } = await someone('bookmarks', { title: 'x'.repeat(2_000_000) })
    const { limits } = sandbox.switches
    const largest = limits.max_record_payload_bytes
    limits.max_record_payload_bytes = 1_000_000

    const { errors, code } = await restore()
    limits.max_record_payload_bytes = largest

    expect(errors).toMatch(/^ {2}1 rejected \(413 .+\): bad$/m)
    expect(stored().toSorted()).toEqual(ids.filter((id) => id !== 'bad').toSorted())
    expect(code).toBe(3)
  })

  it.each([['forms'], ['bookmarks']])(
    'sends less at once if a transaction is too large: %s',
    async (collection) => {
      const { restore, stored, ids } = await someone(collection)
      const message = JSON.stringify({ code: 413, errno: 113, error: 'Too large', message: 'Too large' })
      const counts: number[] = []
      proxy.plan(({ path, body }) => {
        if (path !== '/v1/batch') return null
        const { length } = (JSON.parse(body) as { requests: unknown[] }).requests
        counts.push(length)
        return length > 1 ? { kind: 'status', status: 413, body: message } : null
      })

      const { errors, code } = await restore()

      proxy.plan(() => null)
      expect([code, stored().toSorted()]).toEqual([0, ids.toSorted()])
      expect(errors).toMatch(/^ {2}\d+ written$/m)
      expect(Math.max(...counts)).toBeGreaterThan(1)
    },
  )
})

import { describe, expect, it } from 'bun:test'
import { changes, type WatchOptions } from '../../src/client/changes.ts'
import type { ClientError } from '../../src/client/errors.ts'
import type { ClientOptions } from '../../src/client/requests.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { accountAt, replaceKeys, upload } from './world.ts'

async function startWatched(): Promise<TestBridge> {
  const bridge = await startTestBridge()
  fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 10, history: 10 })
  return bridge
}

/**
 * Watches for as many rounds as there are actions; each action happens before the round that reports it. Returns the reported changes, and
 * the requests below the bucket.
 */
async function watch(bridge: TestBridge, acts: (() => unknown)[], more: WatchOptions & ClientOptions = {}) {
  const asked: string[] = []
  const told: string[] = []
  const stopping = new AbortController()
  let rounds = 0
  const client = new SyncClient(accountAt(bridge), {
    async fetch(url, init) {
      const path = new URL(url).pathname.split('/').slice(4).join('/')
      asked.push(path)
      if (path === 'collections' && rounds++ > 0) {
        if (acts.length === 0) stopping.abort()
        await acts.shift()?.()
      }
      return (more.fetch ?? fetch)(url, init)
    },
    sleep: more.sleep,
    onPause: more.onPause,
  })
  for await (const { collection, clear, problem } of changes(client, {
    everySeconds: 0,
    signal: stopping.signal,
    ...more,
  }))
    told.push(`${collection} ${clear?.id ?? problem}${clear?.deleted ? ' deleted' : ''}`)
  return { told, asked }
}

const listed = (asked: string[]) => asked.filter((path) => path.endsWith('/records'))

describe('changes', () => {
  it('yields each changed record, oldest first, and lists only changed collections', async () => {
    await using bridge = await startWatched()

    const { told, asked } = await watch(bridge, [
      async () => {
        await upload(bridge, 'bookmarks', { id: 'first' })
        await upload(bridge, 'bookmarks', { id: 'second' }, { id: 'second', deleted: true })
      },
      () => {},
      () => upload(bridge, 'tabs', { id: 'device' }),
    ])

    expect(told).toEqual(['bookmarks first', 'bookmarks second deleted', 'tabs device'])
    expect(new Set(listed(asked))).toEqual(
      new Set(['collections/bookmarks/records', 'collections/tabs/records']),
    )
    expect(asked.filter((path) => path === 'collections')).toHaveLength(5)
  })

  it('ends at once when it is aborted, even if more has changed', async () => {
    await using bridge = await startWatched()
    const stopping = new AbortController()
    const told: string[] = []

    const watched = changes(new SyncClient(accountAt(bridge)), { since: 0, signal: stopping.signal })
    for await (const { collection } of watched) {
      told.push(collection)
      stopping.abort()
    }

    expect(told).toHaveLength(1)
  })

  it('yields everything of a collection that was wiped and filled again', async () => {
    await using bridge = await startWatched()

    const { told } = await watch(bridge, [
      () => bridge.sandbox.remove(bridge.user, 'forms'),
      () => upload(bridge, 'forms', { id: 'a' }, { id: 'b' }),
    ])

    expect(told.toSorted()).toEqual(['forms a', 'forms b'])
  })

  it('uses the new keys for what was encrypted with them, in a collection of any name', async () => {
    await using bridge = await startWatched()

    const { told } = await watch(bridge, [
      () => upload(bridge, 'tabs', { id: 'old' }),
      async () => {
        await replaceKeys(bridge)
        await upload(bridge, 'bookmarks', { id: 'new' })
        await upload(bridge, 'tabs', { id: 'new' })
      },
    ])

    expect(told).toEqual(['tabs old', 'bookmarks new', 'tabs new'])
  })

  it('uses keys that a client created after the round has begun', async () => {
    await using bridge = await startWatched()
    let isReset = false

    const { told } = await watch(bridge, [() => upload(bridge, 'forms', { id: 'before' })], {
      async fetch(url, init) {
        if (url.includes('/forms/records') && !isReset) {
          isReset = true
          bridge.sandbox.remove(bridge.user, 'forms')
          await replaceKeys(bridge)
          await upload(bridge, 'forms', { id: 'after' })
        }
        return fetch(url, init)
      },
    })

    expect(told).toEqual(['forms after'])
  })

  it('catches up in the next round after a failed one', async () => {
    await using bridge = await startWatched()
    const errors: string[] = []
    let failures = 1

    const { told } = await watch(bridge, [() => upload(bridge, 'tabs', { id: 'kept' }), () => {}], {
      onError: ({ message }) => errors.push(message),
      fetch: (url, init) =>
        url.includes('/tabs/records') && failures-- > 0
          ? Promise.reject(new TypeError('lost'))
          : fetch(url, init),
    })

    expect(told).toEqual(['tabs kept'])
    expect(errors).toEqual([expect.stringContaining('No response from the bridge')])
  })

  it('pauses between rounds for as long as the bridge asks, and reports that', async () => {
    await using bridge = await startWatched()
    const [naps, told]: [number[], string[]] = [[], []]
    let isBusy = true

    await watch(bridge, [() => {}, () => {}], {
      everySeconds: 7,
      async fetch(url, init) {
        const answer = await fetch(url, init)
        if (isBusy && !init.signal?.aborted) answer.headers.set('Backoff', '30')
        isBusy = false
        return answer
      },
      sleep: async (seconds) => void naps.push(seconds),
      onPause: (seconds, status) => told.push(`${status}: ${seconds}`),
    })

    expect(naps).toHaveLength(3)
    for (const seconds of naps) expect(seconds).toBeWithin(25, 30.1)
    expect(told).toEqual(['200: 30', '200: 30', '200: 30'])
  })

  it('ends when the account is rejected, or the first round fails', async () => {
    await using bridge = await startWatched()
    const errors: ClientError[] = []
    const refuse = () => Promise.resolve(Response.json({ errno: 105, message: 'Ended' }, { status: 401 }))
    const onError = (error: ClientError) => void errors.push(error)
    let rounds = 0

    const refused = watch(bridge, [() => {}], {
      onError,
      fetch: (url, init) => (rounds++ === 0 ? fetch(url, init) : refuse()),
    })
    await expect(refused).rejects.toMatchObject({ field: 'token', message: 'Ended' })
    const lost = watch(bridge, [], { onError, fetch: () => Promise.reject(new TypeError('lost')) })
    await expect(lost).rejects.toThrow('No response')

    expect(errors).toEqual([])
  })
})

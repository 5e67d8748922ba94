import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { isReadable, type Collection } from '../../src/client/collection.ts'
import { ClientError } from '../../src/client/errors.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { accountAt, all, replaceKeys, upload } from './world.ts'

let bridge: TestBridge
beforeAll(async () => {
  bridge = await startTestBridge()
  fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 40, history: 50 })
})
afterAll(() => bridge.stop())

/** The history behind a proxy that changes the headers of responses. */
function behind(change: (headers: Headers) => void): Collection {
  return clientBehind(change).collection('history')
}

function clientBehind(change: (headers: Headers) => void): SyncClient {
  const fetch = async (url: string, init: RequestInit) => {
    const answer = await globalThis.fetch(url, init)
    const headers = new Headers(answer.headers)
    change(headers)
    return new Response(answer.body, { status: answer.status, headers })
  }
  return new SyncClient(accountAt(bridge), { fetch })
}

describe('Collection', () => {
  it('returns all records, decrypted, page by page', async () => {
    const history = new SyncClient(accountAt(bridge)).collection('history')

    const pages = await all(history.pages({ pageSize: 20 }))
    const records = await all(history.records())
    const { total, lastModified } = await history.count()

    expect(pages.map((page) => page.records.length)).toEqual([20, 20, 10])
    expect(records.filter(isReadable).every(({ clear }) => String(clear.histUri).startsWith('http'))).toBe(
      true,
    )
    expect([records.length, total]).toEqual([50, 50])
    expect(new Set(pages.map((page) => page.lastModified))).toEqual(new Set([lastModified]))
  })

  it.each([
    ['weakens', (etag: string) => `W/${etag}`],
    ['marks', (etag: string) => etag.replace(/"$/, '-gzip"')],
  ])('reads all pages through a proxy that compresses and %s the ETag', async (_, change) => {
    const history = behind((headers) => headers.set('ETag', change(headers.get('ETag')!)))

    const pages = await all(history.pages({ pageSize: 20 }))
    const { lastModified } = await new SyncClient(accountAt(bridge)).collection('history').count()

    expect(pages.map((page) => [page.records.length, page.lastModified])).toEqual(
      [20, 20, 10].map((length) => [length, lastModified]),
    )
  })

  it('rejects a list that has fewer records than it says', async () => {
    const lying = (headers: Headers) => headers.set('Total-Records', '51')

    await expect(all(behind(lying).records())).rejects.toThrow('it has fewer records than it says')
    await expect(all(behind(lying).records({ since: 1 }))).rejects.toThrow(
      'it has fewer records than it says',
    )
    const client = clientBehind(lying)
    await expect(client.collections()).rejects.toThrow('it has fewer records than it says')
  })

  it('rejects a page that names itself as the next one', async () => {
    let pages = 0
    const repeating = (headers: Headers) => {
      pages += 1
      if (pages < 9) headers.set('Next-Page', `${bridge.url}/v1/?_limit=20`)
    }

    await expect(all(behind(repeating).pages({ pageSize: 20 }))).rejects.toThrow('the same page again')
  })

  it('reads everything again if a page of many ids is no longer valid', async () => {
    await using own = await startTestBridge()
    own.sandbox.seed(own.user, 'history', 150)
    const ids = own.sandbox.records(own.user, 'history').map(({ id }) => id)
    const pages = new SyncClient(accountAt(own)).collection('history').storedPages({ ids, pageSize: 50 })
    const seen = new Set<string>()

    const first = await pages.next()
    own.sandbox.remove(own.user, 'history', [ids[0]!, ids[149]!])
    for (const { id } of first.value!.records) seen.add(id)
    for await (const { records } of pages) for (const { id } of records) seen.add(id)

    const left = own.sandbox.records(own.user, 'history').map(({ id }) => id)
    expect(left).toHaveLength(148)
    expect(left.filter((id) => !seen.has(id))).toEqual([])
  })

  it.each(['a refusal', 'no response'])(
    'reports that the next page failed while one is processed: %s',
    async (kind) => {
      const failed = Promise.withResolvers<void>()
      const fetch = async (url: string, init: RequestInit) => {
        if (!url.includes('_token=')) return await globalThis.fetch(url, init)
        // The failure comes before anything waits for this page.
        setImmediate(failed.resolve)
        if (kind === 'no response') throw new TypeError('fetch failed')
        return new Response('{}', { status: 400 })
      }
      const history = new SyncClient(accountAt(bridge), { fetch }).collection('history')
      const pages = history.storedPages({ pageSize: 20 })

      const first = await pages.next()
      await failed.promise
      // An unhandled rejection would end the program now, and fails this test.
      for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))

      expect(first.value!.records).toHaveLength(20)
      await expect(pages.next()).rejects.toBeInstanceOf(ClientError)
    },
  )

  it('fetches the keys again for records that the known ones do not decrypt', async () => {
    await using own = await startTestBridge()
    fillSampleData(own.sandbox, own.user, { isEmpty: true })
    const forms = new SyncClient(accountAt(own)).collection('forms')
    const ids = async () => (await all(forms.records())).map(({ clear }) => clear?.id)
    await upload(own, 'forms', { id: 'old' })

    const before = await ids()
    await replaceKeys(own)
    await upload(own, 'forms', { id: 'new' })

    expect([before, await ids()]).toEqual([['old'], ['new', 'old']])
  })

  it('rejects pages without an ETag, because changes during the read would be missed', async () => {
    const history = behind((headers) => headers.delete('ETag'))

    await expect(all(history.pages({ pageSize: 20 }))).rejects.toThrow('does a proxy remove it?')
    expect(await all(history.pages())).toHaveLength(1)
  })

  it('stops at a signal, also while it checks whether the pages are complete', async () => {
    const stopping = new AbortController()
    const fetch = (url: string, init: RequestInit) => {
      if (init.method === 'HEAD') stopping.abort(new Error('Stopped'))
      return globalThis.fetch(url, init)
    }
    const history = new SyncClient(accountAt(bridge), { fetch }).collection('history')

    const read = all(history.pages({ pageSize: 20, signal: stopping.signal }))

    await expect(read).rejects.toThrow('Stopped')
  })

  it('returns every record if one changes between two pages, that one in its latest version', async () => {
    const { sandbox, user } = bridge
    // Records of one upload have one timestamp, and the storage counts them to continue.
    const made = Array.from({ length: 50 }, (_, index) => ({ id: `made${index}`, payload: 'before' }))
    sandbox.write(user, 'addresses', made)
    const found = new Map<string, string>()
    let count = 0

    for await (const { records } of new SyncClient(accountAt(bridge))
      .collection('addresses')
      .storedPages({ pageSize: 20 })) {
      const [first] = records
      if (count++ === 0) sandbox.write(user, 'addresses', [{ id: first!.id, payload: 'after' }])
      for (const { id, payload } of records) found.set(id, payload!)
    }

    const current = sandbox.records(user, 'addresses').map(({ id, payload }) => [id, payload])
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(current))
    expect([...found.values()]).toContain('after')
  })

  it('returns changes since a time, including deletions', async () => {
    const forms = new SyncClient(accountAt(bridge)).collection('forms')
    const { lastModified } = await forms.count()
    await upload(bridge, 'forms', { id: 'new', name: 'x' }, { id: 'gone', deleted: true })

    const records = await all(forms.records({ since: lastModified }))

    expect(records.map(({ clear, problem }) => [clear?.id, clear?.deleted, problem]).toSorted()).toEqual([
      ['gone', true, null],
      ['new', undefined, null],
    ])
    expect(records.filter(isReadable).map(({ stored }) => stored.id)).toEqual(['new'])
  })

  it('returns meta, which is not encrypted, even if it is empty', async () => {
    const meta = new SyncClient({ ...accountAt(bridge), syncKey: '' }).collection('meta')
    const before = await all(meta.records())
    bridge.sandbox.write(bridge.user, 'meta', [{ id: 'global', payload: '' }])

    const after = await all(meta.records())

    expect(before).toMatchObject([{ clear: { id: 'global', storageVersion: 5 }, problem: null }])
    expect(after).toMatchObject([{ clear: null, problem: 'It is not JSON' }])
  })

  it('returns records of meta under their id, and only objects as content', async () => {
    const { sandbox, user } = bridge
    const written = { global: '{"id":"other","engines":{}}', list: '[1]', text: '"abc"', none: 'null' }
    for (const [id, payload] of Object.entries(written)) sandbox.write(user, 'meta', [{ id, payload }])

    const records = await all(new SyncClient(accountAt(bridge)).collection('meta').records())

    const problem = 'Its content is not a record'
    expect(records.map(({ stored, clear, problem: why }) => [stored.id, clear, why]).toSorted()).toEqual([
      ['global', { id: 'global', engines: {} }, null],
      ['list', null, problem],
      ['none', null, problem],
      ['text', null, problem],
    ])
  })
})

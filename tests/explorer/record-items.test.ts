import { describe, expect, it } from 'bun:test'
import { bookmarkTree, walk } from '../../src/client/bookmarks.ts'
import {
  bookmarkItem,
  devices,
  factsOf,
  historyByDay,
  otherRecord,
  preferences,
} from '../../src/explorer/record-items.ts'
import { bookmark, folder, record } from '../client/records.ts'

describe('bookmarkItem', () => {
  it('links only to web addresses', () => {
    const tree = bookmarkTree(
      [
        folder('menu', 'places', ['script', 'file', 'web']),
        bookmark('script', 'menu', { bmkUri: 'javascript:alert(1)' }),
        bookmark('file', 'menu', { bmkUri: 'file:///etc/passwd' }),
        bookmark('web', 'menu', { bmkUri: 'HTTPS://web.example/' }),
      ],
      bookmarkItem,
    )

    expect(tree[0]!.children.map(({ url }) => url)).toEqual([null, null, 'HTTPS://web.example/'])
  })

  it('shows a URL or an id if there is no title', () => {
    const tree = bookmarkTree(
      [
        folder('menu', 'places', ['a']),
        bookmark('a', 'menu', { title: '' }),
        record({ id: 'b', type: 'folder' }),
      ],
      bookmarkItem,
    )

    expect(walk(tree).map(({ title }) => title)).toEqual([
      'Bookmarks Menu',
      'https://a.example/',
      'Other Bookmarks',
      'b',
    ])
  })
})

describe('historyByDay', () => {
  it('lists a page once for each day of a visit, latest first', () => {
    const noon = new Date(2026, 4, 20, 12).getTime()
    const dayMs = 86_400_000
    const visits = [noon, noon + 60_000, noon - dayMs].map((atMs) => ({ date: atMs * 1000, type: 1 }))
    const page = (id: string, more: object) =>
      record({ id, histUri: 'https://x.example/', title: id, ...more }, 'history')

    const days = historyByDay([
      page('visited', { visits }),
      page('strange', { visits: [null, { date: 'x' }, {}] }),
    ])

    const [latest, before, unknown] = days
    const rows = [latest!, before!, unknown!].map(({ title, items }) => [
      new Date(Number(title)).getDate(),
      items.map((item) => `${item.title} ${item.meta!()}`),
    ])
    expect(rows).toEqual([
      [20, [expect.stringMatching(/^visited 2×  12:01/)]],
      [19, [expect.stringMatching(/^visited 12:00/)]],
      [new Date(1_700_000_000_000).getDate(), [expect.stringMatching(/^strange \d/)]],
    ])
  })
})

describe('devices', () => {
  it('groups the tabs by device, including unknown devices', () => {
    const clients = [
      record({ id: 'a', name: 'Desk', type: 'desktop', os: 'Linux', version: '153.0' }, 'clients'),
    ]
    const tabs = [
      record(
        { id: 'a', clientName: 'Desk', tabs: [{ title: 't', urlHistory: ['https://t.example/'] }, null, {}] },
        'tabs',
      ),
      record({ id: 'b', clientName: 'Stranger', tabs: 'none' }, 'tabs'),
    ]

    expect(devices(clients, tabs)).toMatchObject([
      {
        title: 'Desk',
        items: [{ title: 't' }],
        device: { kind: 'desktop', about: 'Linux · Firefox 153.0' },
      },
      { title: 'Stranger', items: [] },
    ])
  })
})

describe('other records', () => {
  it('are shown whatever their format', () => {
    const odd = [record({ id: 'x', value: null }), record({ id: 'y', value: { a: 1 } })]

    expect(odd.flatMap(preferences).map(({ title, meta }) => [title, meta!()])).toEqual([['a', '1']])
    expect(otherRecord(record({ id: 'x', entry: { name: 'Named' } }, 'addresses')).title).toBe('Named')
    expect(factsOf({ id: 'x', bmkUri: 7, dateAdded: 'never', visits: 'none', tags: ['a', 'b'] })).toEqual([
      { name: 'Tags', value: 'a, b' },
    ])
  })

  it('are shown without invalid times', () => {
    const odd = { toString: 1, valueOf: 1 }
    const tabs = record({
      id: 'a',
      tabs: [{ title: 't', urlHistory: ['https://t.example/'], lastUsed: odd }],
    })
    const page = record({ id: 'p', histUri: 'https://p.example/', visits: [{ date: odd }] })

    const [device] = devices([], [tabs])

    expect(device!.items.map(({ meta }) => meta!())).toEqual([''])
    expect(historyByDay([page]).map(({ items }) => items.length)).toEqual([1])
    expect(factsOf({ id: 'x', dateAdded: odd, timeCreated: '1700000000000' })).toEqual([
      { name: 'Created', value: 1_700_000_000_000 },
    ])
  })
})

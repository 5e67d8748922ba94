import { describe, expect, it } from 'bun:test'
import type { SyncRecord } from '../../src/client/collection.ts'
import { wordsOf } from '../../src/client/spelling.ts'
import type { Group, Item } from '../../src/explorer/items.ts'
import { itemOf } from '../../src/explorer/record-items.ts'
import { inOrder } from '../../src/explorer/order.ts'
import { Search } from '../../src/explorer/search.ts'

const record = (id: string, fields: object = {}, last_modified = 1): SyncRecord => ({
  collection: 'bookmarks',
  stored: { id, last_modified },
  clear: { id, ...fields },
  problem: null,
})

const titled = (...titles: string[]): Item[] => titles.map((title) => itemOf(record(title), title, ''))
const group = (items: Item[], title: string | null = null): Group[] => [{ title, items }]
const titlesOf = (groups: Group[]) => groups.flatMap(({ items }) => items.map(({ title }) => title))
const find = (groups: Group[], typed: string) => titlesOf(new Search().matching(groups, wordsOf(typed)))

describe('Search', () => {
  it('finds words in any order, ignoring case and accents', () => {
    const groups = group(titled('B-tree - Wikipedia', 'Über uns', 'Γλώσσα', 'Saint-Étienne'))

    expect(find(groups, 'wiki b-TREE')).toEqual(['B-tree - Wikipedia'])
    expect(find(groups, 'uber')).toEqual(['Über uns'])
    expect(find(groups, 'ÜBER')).toEqual(['Über uns'])
    expect(find(groups, 'γλωσσα')).toEqual(['Γλώσσα'])
    expect(find(groups, ' etienne  saint ')).toEqual(['Saint-Étienne'])
    expect(find(groups, 'wiki uber')).toEqual([])
    expect(find(groups, '  ')).toHaveLength(4)
  })

  it('finds the same when words are typed, shortened and typed again', () => {
    const groups = group(titled('Bread', 'Breakfast', 'Bread and butter', 'Break'))
    const search = new Search()
    const typed = ['b', 'brea', 'bread', 'bread a', 'bread', 'brea', 'break', 'brea', 'butter', 'bread', '']

    for (const text of typed)
      expect(titlesOf(search.matching(groups, wordsOf(text)))).toEqual(find(groups, text))
    expect(search.matching(groups, ['brea'])).toBe(search.matching(groups, ['brea']))
  })

  it('finds a device by its name, with its tabs, and a tab by words of both', () => {
    const device = { kind: 'phone', about: '', seenMs: 1, record: record('phone') } as const
    const groups: Group[] = [{ title: 'Téléphone', items: titled('News', 'Bread'), device }]
    const empty: Group[] = [{ title: 'Tablet', items: [], device }]

    expect(find(groups, 'telephone')).toEqual(['News', 'Bread'])
    expect(find(groups, 'bread telephone')).toEqual(['Bread'])
    expect(find(groups, 'bread tablet')).toEqual([])
    expect(new Search().matching(empty, ['tablet'])).toHaveLength(1)
    expect(new Search().matching(empty, ['phone'])).toEqual([])
  })
})

describe('inOrder', () => {
  const items = [
    itemOf(record('old', { dateAdded: 1000 }), 'Page 10', '', 'https://www.alpha.example/'),
    itemOf(record('new', { dateAdded: 3000 }), 'Page 9', '', 'http://gamma.example/'),
    itemOf(record('none', {}, 2000), 'äpfel', '', null),
    itemOf(record('middle', { timeLastUsed: 2500 }), 'Zebra', '', 'https://beta.example/'),
  ]

  it('sorts by title in natural order, by URL without scheme, and by date, latest first', () => {
    const by = (order: 'title' | 'address' | 'date') => titlesOf(inOrder(group(items), order, false))

    expect(by('title')).toEqual(['äpfel', 'Page 9', 'Page 10', 'Zebra'])
    expect(by('address')).toEqual(['Page 10', 'Zebra', 'Page 9', 'äpfel'])
    expect(by('date')).toEqual(['Page 9', 'Zebra', 'äpfel', 'Page 10'])
    expect(inOrder(group(items), '', false)[0]!.items).toBe(items)
  })

  it('merges groups into one list without duplicates', () => {
    const groups = [...group(items.slice(0, 2), 'b'), ...group(items.slice(0, 1), 'a')]

    const [flat, ...others] = inOrder(groups, 'title', true)

    expect([flat!.title, titlesOf([flat!]), others]).toEqual([null, ['Page 9', 'Page 10'], []])
  })
})

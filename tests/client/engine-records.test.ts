import { describe, expect, it } from 'bun:test'
import { describeRecord, engines, faultOf, nameRecord } from '../../src/client/engine-records.ts'
import { fieldNames, oddValues } from './odd.ts'
import {
  readBookmark,
  readDevice,
  readEntry,
  readExtensionData,
  readFormEntry,
  readLogin,
  readPreferences,
  readTabs,
  readVisitedPage,
} from '../../src/client/record-readers.ts'

const collections =
  `bookmarks history passwords forms tabs clients addresses creditcards prefs extension-storage
  addons constructor unknown`.split(/\s+/)

describe('the readers of engines', () => {
  it('name records by fields whose types are known', () => {
    const unknown = Object.entries(engines).flatMap(([collection, { fields, names, namesIn }]) =>
      (namesIn === undefined ? names : [namesIn])
        .filter((name) => name !== 'id' && !Object.hasOwn(fields, name))
        .map((name) => `${collection}: ${name}`),
    )

    expect(unknown).toEqual([])
  })

  it('never throw, and return the declared types, whatever a field holds', () => {
    const types = (value: object) =>
      Object.fromEntries(Object.entries(value).map(([name, each]) => [name, typeof each]))
    const readers = [readBookmark, readVisitedPage, readLogin, readFormEntry, readTabs, readDevice]
    const expected = readers.map((read) => types(read({})))

    for (const value of oddValues)
      for (const field of fieldNames) {
        const clear = { [field]: value, type: field === 'type' ? value : 'livemark' }
        expect(readers.map((read) => types(read(clear)))).toEqual(expected)
        readEntry(clear)
        readPreferences(clear)
        readExtensionData(clear)
        for (const collection of collections) {
          expect(typeof describeRecord(collection, clear)).toBe('string')
          expect(typeof nameRecord(collection, clear)).toBe('string')
          faultOf(collection, clear)
        }
      }
  })

  it('keep what is readable beside what is not', () => {
    expect(readBookmark({ type: 'folder', children: ['a', 7, null, 'b'], tags: 'x' })).toMatchObject({
      kind: 'folder',
      childIds: ['a', 'b'],
      tags: [],
    })
    expect(
      readVisitedPage({ visits: [null, { date: 'x' }, { date: 2000, type: 7 }, { date: 3000 }] }).visits,
    ).toEqual([
      { atMs: 3, kind: '' },
      { atMs: 2, kind: 'download' },
    ])
  })

  it('read a live bookmark with the address of its feed', () => {
    const feed = { type: 'livemark', feedUri: 'https://x.example/feed', siteUri: 'https://x.example/' }

    expect(readBookmark(feed)).toMatchObject({
      kind: 'bookmark',
      url: 'https://x.example/feed',
      siteUrl: 'https://x.example/',
    })
  })
})

describe('faultOf', () => {
  it.each([
    ['bookmarks', { type: 'folder', children: ['a', 7] }, '"children" is not a list of ids'],
    ['bookmarks', { type: 'folder', children: 'a' }, '"children" is not a list of ids'],
    ['bookmarks', { type: 'bookmark', title: 'a' }, '"bmkUri" is missing'],
    ['bookmarks', { type: 'livemark', bmkUri: 'a' }, '"feedUri" is missing'],
    ['bookmarks', { bmkUri: 'a', tags: [1] }, '"tags" is not a list of texts'],
    ['bookmarks', { bmkUri: 'a', dateAdded: {} }, '"dateAdded" is not a number'],
    ['bookmarks', { bmkUri: 'a', title: null, keyword: null, unknown: [[]], dateAdded: '1' }, null],
    ['bookmarks', { type: 'separator' }, null],
    ['history', { histUri: 7 }, '"histUri" is not text'],
    ['history', { histUri: 'a', visits: [null] }, '"visits" is not a list of records'],
    ['passwords', { hostname: 'a', password: 7 }, '"password" is not text'],
    ['forms', {}, '"name" is missing'],
    ['tabs', { tabs: {} }, '"tabs" is not a list of records'],
    ['addresses', { entry: 'a' }, '"entry" is not a record'],
    ['prefs', { value: [] }, '"value" is not a record'],
    ['history', { deleted: true, histUri: 7 }, null],
    ['constructor', { name: 7 }, null],
  ])('of %s %j is %p', (collection, clear, fault) => {
    expect(faultOf(collection, { id: 'x', ...clear })).toBe(fault)
  })
})

describe('describeRecord and nameRecord', () => {
  it.each([
    ['bookmarks', { title: 'A', bmkUri: 'https://a/', tags: ['x'] }, 'A <https://a/> #x', 'A'],
    ['bookmarks', { type: 'folder', title: 'F' }, 'F/', 'F'],
    ['bookmarks', { type: 'separator' }, '----', 'x'],
    ['history', { title: '', histUri: 'https://a/' }, '<https://a/>', 'x'],
    ['passwords', { hostname: 'https://a', username: 'u', password: 'secret' }, 'https://a u', 'https://a'],
    ['tabs', { clientName: 'Desk', tabs: [] }, 'Desk: 0 tabs', 'Desk'],
    ['forms', { name: 'q', value: 'v' }, 'q: v', 'q'],
    ['creditcards', { entry: { 'cc-name': 'N', 'cc-number': '4111' } }, 'N', 'N'],
    ['extension-storage', { extId: 'a@b' }, 'a@b', 'a@b'],
    ['meta', { engines: {}, declined: ['tabs'] }, 'nothing; not tabs', 'x'],
    ['unknown', { title: 'T' }, 'T', 'T'],
    ['unknown', { deleted: true, title: 'T' }, '', 'x'],
  ])('of %s %j', (collection, clear, description, name) => {
    expect([
      describeRecord(collection, { id: 'x', ...clear }),
      nameRecord(collection, { id: 'x', ...clear }),
    ]).toEqual([description, name])
  })
})

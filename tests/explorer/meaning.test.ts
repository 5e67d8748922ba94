import { describe, expect, it } from 'bun:test'
import type { Entry } from '../../src/explorer/account.ts'
import { bookmarkTree, findable, walk, type TreeNode } from '../../src/explorer/bookmarks.ts'
import { bookmarksFile, everythingFile, historyFile, passwordsFile } from '../../src/explorer/files.ts'
import {
  ago,
  devices,
  factsOf,
  historyByDay,
  otherRecord,
  preferences,
  readable,
  webAddress,
  type Readable,
} from '../../src/explorer/meaning.ts'

function entry(clear: { id: string; [field: string]: unknown }, collection = 'bookmarks'): Readable {
  const wire = { id: clear.id, last_modified: 1_700_000_000_000 }
  return { collection, path: `/${clear.id}`, wire, clear, problem: null }
}

const unreadable: Entry = {
  collection: 'bookmarks',
  path: '/foreign',
  wire: { id: 'foreign', last_modified: 1 },
  clear: null,
  problem: 'It was encrypted with another key',
}

const folder = (id: string, parentid: string, children: unknown) =>
  entry({ id, type: 'folder', title: id, parentid, children })
const bookmark = (id: string, parentid: string, more: object = {}) =>
  entry({ id, type: 'bookmark', title: id, bmkUri: `https://${id}.example/`, parentid, ...more })

/** A tree as text: a folder with what is in it in brackets. */
function shape(nodes: TreeNode[]): string {
  return nodes
    .map(({ entry: { wire }, kind, children }) =>
      kind === 'folder' ? `${wire.id}(${shape(children)})` : wire.id,
    )
    .join(' ')
}

describe('bookmarkTree', () => {
  it('goes by the children of folders, then by what bookmarks say of their folder', () => {
    const tree = bookmarkTree([
      folder('menu', 'places', ['second', 'inner']),
      bookmark('first', 'menu'),
      bookmark('second', 'menu'),
      folder('inner', 'menu', []),
      bookmark('deep', 'inner'),
      entry({ id: 'line', type: 'separator', parentid: 'inner' }),
    ])

    expect(shape(tree)).toBe('menu(second inner(deep line) first)')
    expect(tree.map(({ count }) => count)).toEqual([3])
    expect(
      findable(walk(tree)).map(({ title, path, level, position, siblings }) => [
        title,
        path,
        level,
        position,
        siblings,
      ]),
    ).toEqual([
      ['menu', undefined, 1, 1, 1],
      ['second', 'menu', 2, 1, 3],
      ['inner', 'menu', 2, 2, 3],
      ['deep', 'menu / inner', 3, 1, 2],
      ['first', 'menu', 2, 3, 3],
    ])
  })

  it('shows at the end what no folder has, and nothing that is deleted or unreadable', () => {
    const tree = bookmarkTree([
      folder('toolbar', 'places', ['gone', 'foreign', 'absent']),
      bookmark('stray', 'nowhere'),
      ...readable([entry({ id: 'gone', deleted: true }), unreadable]),
    ])

    expect(shape(tree)).toBe('toolbar() stray')
  })

  it('comes to an end with folders that hold one another, and with children that are none', () => {
    const tree = bookmarkTree([
      folder('one', 'two', ['two']),
      folder('two', 'one', ['one', 'menu']),
      folder('menu', 'places', 'not a list'),
      folder('unfiled', 'places', [null, 7, { id: 'x' }, 'unfiled', 'same', 'same']),
      bookmark('same', 'unfiled'),
    ])

    expect(shape(tree)).toBe('menu() unfiled(same) one(two())')
    expect(tree.map(({ count }) => count)).toEqual([0, 1, 0])
  })

  it('shows what hangs on folders that hold one another, below one of them', () => {
    const tree = bookmarkTree([
      bookmark('leaf', 'tail'),
      folder('tail', 'one', []),
      folder('one', 'two', []),
      folder('two', 'one', []),
      folder('self', 'self', ['self']),
    ])

    expect(shape(tree)).toBe('self() one(tail(leaf) two())')
  })

  it('is of any depth', () => {
    const chain = Array.from({ length: 20_000 }, (_, index) =>
      folder(`${index}`, `${index - 1}`, [`${index + 1}`]),
    )

    const tree = bookmarkTree([...chain, bookmark('deepest', '19999')])

    expect(walk(tree).at(-1)).toMatchObject({ title: 'deepest', level: 20_001 })
    expect(tree).toMatchObject([{ count: 1 }])
  })

  it('shows a record under whatever id, and leaves out children that are no ids', () => {
    const odd = { toString: 1, valueOf: 1 }
    const nameless = (id: string) => entry({ id, type: 'folder', parentid: 'menu', children: [odd] })

    const [menu] = bookmarkTree([
      folder('menu', 'places', []),
      nameless('constructor'),
      nameless('__proto__'),
    ])

    expect(menu!.children.map(({ title }) => title)).toEqual(['constructor', '__proto__'])
  })

  it('takes only addresses of the web for links', () => {
    const [menu] = bookmarkTree([
      folder('menu', 'places', ['script', 'file', 'web']),
      bookmark('script', 'menu', { bmkUri: 'javascript:alert(1)' }),
      bookmark('file', 'menu', { bmkUri: 'file:///etc/passwd' }),
      bookmark('web', 'menu', { bmkUri: 'HTTPS://web.example/' }),
    ])

    expect(menu!.children.map(({ url }) => url)).toEqual([null, null, 'HTTPS://web.example/'])
    expect([webAddress(' https://x'), webAddress(7), webAddress('http:x')]).toEqual([null, null, null])
  })
})

describe('bookmarksFile', () => {
  it('is what browsers import, with everything in titles and addresses escaped', () => {
    const tree = bookmarkTree([
      folder('toolbar', 'places', ['a', 'line']),
      bookmark('a', 'toolbar', {
        title: '<b>"&"</b>',
        bmkUri: 'https://a.example/?q="><script>',
        dateAdded: 1_700_000_000_123_456,
        tags: ['x', 'y&z'],
        keyword: 'k',
      }),
      entry({ id: 'line', type: 'separator', parentid: 'toolbar' }),
    ])

    expect(bookmarksFile(tree).split('\n').slice(5)).toEqual([
      '<DL><p>',
      '    <DT><H3 PERSONAL_TOOLBAR_FOLDER="true">toolbar</H3>',
      '    <DL><p>',
      '        <DT><A HREF="https://a.example/?q=&quot;&gt;&lt;script&gt;" ADD_DATE="1700000000" TAGS="x,y&amp;z" ' +
        'SHORTCUTURL="k">&lt;b&gt;&quot;&amp;&quot;&lt;/b&gt;</A>',
      '        <HR>',
      '    </DL><p>',
      '</DL>',
      '',
    ])
  })

  it('is of any depth, and grows no faster than that', () => {
    const sizeOf = (depth: number) => {
      const chain = Array.from({ length: depth }, (_, index) => folder(`${index}`, `${index - 1}`, []))
      const text = bookmarksFile(bookmarkTree([...chain, bookmark('deepest', `${depth - 1}`)]))
      expect(text.match(/<DL>/g)).toHaveLength(text.match(/<\/DL>/g)!.length)
      expect(text).toContain('https://deepest.example/')
      return text.length
    }

    expect(sizeOf(20_000)).toBeLessThan(sizeOf(2000) * 11)
  })
})

describe('passwordsFile', () => {
  it('has the columns that Firefox exports, and quotes whatever is in them', () => {
    const clear = {
      id: '{a}',
      hostname: 'https://a.example',
      username: 'a "b", c',
      password: '=1+1\nü',
      httpRealm: null,
      formSubmitURL: 'https://a.example',
      timeCreated: 1_700_000_000_123,
      timeLastUsed: { odd: true },
    }

    expect(passwordsFile([entry(clear, 'passwords')]).split('\r\n')).toEqual([
      '"url","username","password","httpRealm","formActionOrigin","guid","timeCreated","timeLastUsed","timePasswordChanged"',
      '"https://a.example","a ""b"", c","=1+1\nü","","https://a.example","{a}","1700000000123","",""',
      '',
    ])
  })
})

describe('historyFile', () => {
  it('has a line for each visit, the latest first, and nothing that a spreadsheet would compute', () => {
    const page = (title: unknown, visits: unknown) =>
      entry({ id: 'x', histUri: 'https://x.example/', title, visits }, 'history')
    const pages = [
      page('=HYPERLINK("x")', [{ date: 1_000_000 }, { date: 3_000_000 }]),
      page('-plain', [{ date: 2_000_000 }, null]),
      page(7, 'none'),
    ]

    expect(historyFile(pages).split('\r\n')).toEqual([
      '"visited","url","title"',
      '"1970-01-01T00:00:03.000Z","https://x.example/","\'=HYPERLINK(""x"")"',
      '"1970-01-01T00:00:02.000Z","https://x.example/","\'-plain"',
      '"1970-01-01T00:00:01.000Z","https://x.example/","\'=HYPERLINK(""x"")"',
      '"","https://x.example/",""',
      '',
    ])
  })
})

describe('historyByDay', () => {
  it('has a page once for each day on which it was visited, the latest first', () => {
    const noon = new Date(2026, 4, 20, 12).getTime()
    const dayMs = 86_400_000
    const visits = [noon, noon + 60_000, noon - dayMs].map((atMs) => ({ date: atMs * 1000, type: 1 }))
    const page = (id: string, more: object) =>
      entry({ id, histUri: 'https://x.example/', title: id, ...more }, 'history')

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
  it('joins the tabs to their device, and shows those of unknown devices too', () => {
    const clients = [
      entry({ id: 'a', name: 'Desk', type: 'desktop', os: 'Linux', version: '153.0' }, 'clients'),
    ]
    const tabs = [
      entry(
        { id: 'a', clientName: 'Desk', tabs: [{ title: 't', urlHistory: ['https://t.example/'] }, null, {}] },
        'tabs',
      ),
      entry({ id: 'b', clientName: 'Stranger', tabs: 'none' }, 'tabs'),
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

describe('what else there is', () => {
  it('is shown whatever it looks like', () => {
    const odd = [entry({ id: 'x', value: null }), entry({ id: 'y', value: { a: 1 } })]

    expect(odd.flatMap(preferences).map(({ title, meta }) => [title, meta!()])).toEqual([['a', '1']])
    expect(otherRecord(entry({ id: 'x', entry: { name: 'Named' } })).title).toBe('Named')
    expect(factsOf({ id: 'x', bmkUri: 7, dateAdded: 'never', visits: 'none', tags: ['a', 'b'] })).toEqual([
      { name: 'Tags', value: 'a, b' },
    ])
  })

  it('is shown without the moments that are none', () => {
    const odd = { toString: 1, valueOf: 1 }
    const tabs = entry({ id: 'a', tabs: [{ title: 't', urlHistory: ['https://t.example/'], lastUsed: odd }] })
    const page = entry({ id: 'p', histUri: 'https://p.example/', visits: [{ date: odd }] })
    const tree = bookmarkTree([bookmark('b', 'menu', { dateAdded: odd })])

    const [device] = devices([], [tabs])

    expect(device!.items.map(({ meta }) => meta!())).toEqual([''])
    expect(historyByDay([page]).map(({ items }) => items.length)).toEqual([1])
    expect(factsOf({ id: 'x', dateAdded: odd, timeCreated: '1700000000000' })).toEqual([
      { name: 'Created', value: 1_700_000_000_000 },
    ])
    expect(bookmarksFile(tree)).toContain('<DT><A HREF="https://b.example/">b</A>')
  })

  it('is saved as JSON with collections of any name', () => {
    const text = everythingFile(
      ['constructor', '__proto__'].map((name) => entry({ id: 'a' }, name)),
      new Map(),
      new Date(0),
    )

    const held = [{ id: 'a', last_modified: 1_700_000_000_000 }]
    expect(Object.entries(JSON.parse(text).collections)).toEqual([
      ['constructor', held],
      ['__proto__', held],
    ])
  })

  it('is saved as JSON that names what could not be read', () => {
    const text = everythingFile(
      [bookmark('a', 'menu'), unreadable],
      new Map([['forms', 'The storage does not answer']]),
      new Date(0),
    )

    expect(JSON.parse(text)).toMatchObject({
      exported: '1970-01-01T00:00:00.000Z',
      collections: { bookmarks: [{ id: 'a', last_modified: 1_700_000_000_000 }] },
      unreadable: [{ collection: 'bookmarks', id: 'foreign', problem: unreadable.problem }],
      incomplete: { forms: 'The storage does not answer' },
    })
  })
})

describe('ago', () => {
  it('counts minutes, hours, days, months and years, and nothing as in the future', () => {
    const minute = 60_000
    const day = 1440 * minute
    const told = [-minute, minute, 90 * minute, 3 * day, 59 * day, 90 * day, 800 * day].map((ms) =>
      ago(Date.now() - ms),
    )

    expect(told).toEqual([
      'this minute',
      '1 minute ago',
      '1 hour ago',
      '3 days ago',
      '59 days ago',
      '3 months ago',
      '2 years ago',
    ])
  })
})

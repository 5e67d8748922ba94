import { describe, expect, it } from 'bun:test'
import {
  bookmarksCsv,
  bookmarksFirefoxJson,
  bookmarksHtml,
  bookmarksJson,
  bookmarksMarkdown,
  bookmarkUrls,
  type PlainBookmark,
} from '../../src/client/bookmark-formats.ts'
import { bookmarkTree, deepestLevel, foldersNamed, walk } from '../../src/client/bookmarks.ts'
import { readVisitedPage } from '../../src/client/record-readers.ts'
import { exportFormats } from '../../src/client/export-formats.ts'
import { everythingJson, historyCsv, passwordsCsv, tabsCsv } from '../../src/client/record-formats.ts'
import { jsonText, printable } from '../../src/client/safe-text.ts'
import { bookmark, folder, record, recordsOf, unreadable } from './records.ts'

const treeOf = (text: string, more?: Record<string, object>) => bookmarkTree(recordsOf(text, more))
const line = { type: 'separator', title: undefined, bmkUri: undefined }

/** A format yields parts, or one text. */
const textOf = (parts: Iterable<string>) => [...parts].join('')

describe('bookmarksHtml', () => {
  it('is what browsers import, with everything in titles and URLs escaped', () => {
    const a = {
      title: '<b>"&"</b>',
      bmkUri: 'https://a.example/?q="><script>',
      dateAdded: 1_700_000_000_123_456,
      tags: ['x', 'y&z'],
      keyword: 'k',
    }
    const tree = treeOf('toolbar(a line)', { a, line })

    expect(bookmarksHtml(tree).split('\n').slice(5)).toEqual([
      '<DL><p>',
      '    <DT><H3 PERSONAL_TOOLBAR_FOLDER="true">Bookmarks Toolbar</H3>',
      '    <DL><p>',
      '        <DT><A HREF="https://a.example/?q=&quot;&gt;&lt;script&gt;" ADD_DATE="1700000000" TAGS="x,y&amp;z" ' +
        'SHORTCUTURL="k">&lt;b&gt;&quot;&amp;&quot;&lt;/b&gt;</A>',
      '        <HR>',
      '    </DL><p>',
      '</DL>',
      '',
    ])
  })

  it('can begin with a folder of any level', () => {
    const tree = treeOf('menu(inner(a))', { a: { dateAdded: { toString: 1 } } })

    expect(bookmarksHtml(foldersNamed(tree, 'inner')).split('\n').slice(5)).toEqual([
      '<DL><p>',
      '    <DT><H3>inner</H3>',
      '    <DL><p>',
      '        <DT><A HREF="https://a.example/">a</A>',
      '    </DL><p>',
      '</DL>',
      '',
    ])
  })

  it('has the contents of the menu on top, where Firefox imports them', () => {
    const tree = treeOf('menu(a inner(b)) toolbar()')

    const lines = bookmarksHtml(tree).split('\n').slice(6, -2)
    expect(lines.map((line) => line.replace(/<(DT|A|H3)[^>]*>/g, '').trim())).toEqual(
      'a</A>|inner</H3>|<DL><p>|b</A>|</DL><p>|Bookmarks Toolbar</H3>|<DL><p>|</DL><p>'.split('|'),
    )
  })

  it('has a live bookmark with its feed and its site', () => {
    const feed = { id: 'f', type: 'livemark', title: 'F', feedUri: 'https://f/rss', siteUri: 'https://f/' }

    expect(bookmarksHtml(bookmarkTree([record(feed)]))).toContain(
      '<DT><A FEEDURL="https://f/rss" HREF="https://f/">F</A>',
    )
  })
})

/** Folders in each other, with a bookmark in each tenth. */
function deepTree(depth: number) {
  const chain = Array.from({ length: depth }, (_, index) => [
    folder(`${index}`, `${index - 1}`, [`b${index}`, `${index + 1}`]),
    ...(index % 10 === 0 ? [bookmark(`b${index}`, `${index}`)] : []),
  ])
  return bookmarkTree([...chain.flat(), bookmark('deepest', `${depth - 1}`)])
}

describe('bookmarks nested deeper than a person makes them', () => {
  it.each(Object.entries(exportFormats.bookmarks))('as %s grow linearly, and lose none', (_, format) => {
    const sizeOf = (depth: number) => {
      const text = textOf(format(deepTree(depth)))
      expect(text.match(/<DL>/g)?.length).toBe(text.match(/<\/DL>/g)?.length)
      expect(text.match(/https:\/\/b\d+\.example\//g)?.length).toBeGreaterThanOrEqual(depth / 10)
      expect(text).toContain('https://deepest.example/')
      return text.length
    }

    expect(sizeOf(10_000)).toBeLessThan(sizeOf(1000) * 11)
  })

  it('are flat below the deepest level', () => {
    const [top]: PlainBookmark[] = JSON.parse(textOf(bookmarksJson(deepTree(1000))))
    let deepest = top!
    let level = 1
    for (; deepest.children!.some(({ children }) => children?.length); level += 1)
      deepest = deepest.children!.find(({ children }) => children)!

    expect(level).toBe(deepestLevel - 1)
    // The folders below it, and the bookmarks that are in them.
    const below = deepest.children!.map(({ type }) => type)
    expect([
      below.filter((type) => type === 'folder').length,
      below.filter((type) => type === 'bookmark').length,
    ]).toEqual([1000 - level + 1, 81])
  })
})

describe('bookmarksJson', () => {
  it('is the nested list, with one entry on each line', () => {
    const tree = treeOf('menu(empty() inner(b) c) toolbar()', {
      b: { tags: ['x'], keyword: 'k', dateAdded: 1000 },
      c: line,
    })

    const text = textOf(bookmarksJson(tree))
    expect(JSON.parse(text)).toEqual([
      { id: 'toolbar', type: 'folder', title: 'Bookmarks Toolbar', children: [] },
      {
        id: 'menu',
        type: 'folder',
        title: 'Bookmarks Menu',
        children: [
          { id: 'empty', type: 'folder', title: 'empty', children: [] },
          {
            id: 'inner',
            type: 'folder',
            title: 'inner',
            children: [
              {
                id: 'b',
                type: 'bookmark',
                title: 'b',
                url: 'https://b.example/',
                tags: ['x'],
                keyword: 'k',
                added: '1970-01-01T00:00:01.000Z',
              },
            ],
          },
          { id: 'c', type: 'separator' },
        ],
      },
    ])
    expect(text.split('\n').filter((line) => line.includes('"id"'))).toHaveLength(walk(tree).length)
  })

  it('of nothing is an empty list', () => {
    expect(JSON.parse(textOf(bookmarksJson([])))).toEqual([])
  })
})

describe('bookmarksFirefoxJson', () => {
  it('has the roots by the ids of Firefox, times in microseconds, and what has no root in Other Bookmarks', () => {
    const tree = treeOf('menu(bookmark-one) unfiled(?stray)', {
      'bookmark-one': { tags: ['x', 'y'], keyword: 'k', dateAdded: 1_000_000 },
      stray: { parentid: 'nowhere' },
    })

    const { root, children } = JSON.parse(textOf(bookmarksFirefoxJson(tree)))
    expect(root).toBe('placesRoot')
    expect(children).toMatchObject([
      {
        guid: 'menu________',
        root: 'bookmarksMenuFolder',
        children: [
          {
            guid: 'bookmark-one',
            title: 'bookmark-one',
            index: 0,
            dateAdded: 1_000_000_000,
            uri: 'https://bookmark-one.example/',
            tags: 'x,y',
            keyword: 'k',
            type: 'text/x-moz-place',
          },
        ],
      },
      { guid: 'unfiled_____', index: 1, children: [{ title: 'stray', uri: 'https://stray.example/' }] },
    ])
    expect(children[1].children[0].guid).toBeUndefined()
  })
})

describe('text for a terminal, a spreadsheet and a Markdown reader', () => {
  const nasty = '\u001b[31mred\u009b2J\u202etxt.exe\u2066\u200f'

  it('has no escape, C1 or direction character in JSON, which stays exact', () => {
    expect(jsonText({ nasty })).not.toMatch(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u)
    expect(JSON.parse(jsonText({ nasty }))).toEqual({ nasty })
  })

  it('has none on a terminal', () => {
    expect(printable(`a\tb\r\n${nasty}`)).toBe('a b\n [31mred 2J txt.exe ')
  })

  it.each(['=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\nx', '＝1'])(
    'marks %j in CSV, unless it is raw',
    (title) => {
      const tree = bookmarkTree([bookmark('a', 'menu', { title })])
      const tabs = [{ device: title, syncedMs: 0, tabs: [{ title, url: 'https://a/', lastUsedMs: 0 }] }]
      const pages = [{ url: 'https://a/', title, visits: [] }]
      const filesOf = (isRaw: boolean) => [
        bookmarksCsv(tree, { isRaw }),
        tabsCsv(tabs, { isRaw }),
        historyCsv(pages, { isRaw }),
      ]

      for (const file of filesOf(false)) expect(textOf(file)).toContain(`"'${title}"`)
      for (const file of filesOf(true)) expect(textOf(file)).toContain(`"${title}"`)
    },
  )

  it.each([
    ['wow ![x](https://x/)', 'wow \\!\\[x\\](https\\://x/)'],
    ['go to www.evil.example', 'go to www\\.evil.example'],
    ['a ~~b~~ | c', 'a \\~\\~b\\~\\~ \\| c'],
  ])('has no image and no link of its own in Markdown: %j', (title, shown) => {
    const [unfiled] = bookmarkTree([folder(title, 'x', [])])

    expect(bookmarksMarkdown(unfiled!.children)).toBe(`# ${shown}\n\n`)
  })
})

describe('passwordsCsv', () => {
  it('has the columns that Firefox exports, and quotes every value', () => {
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

    expect(textOf(passwordsCsv([record(clear, 'passwords')])).split('\r\n')).toEqual([
      '"url","username","password","httpRealm","formActionOrigin","guid","timeCreated","timeLastUsed","timePasswordChanged"',
      '"https://a.example","a ""b"", c","=1+1\nü","","https://a.example","{a}","1700000000123","",""',
      '',
    ])
  })
})

describe('historyCsv', () => {
  it('has a line for each visit, latest first, and nothing that a spreadsheet would evaluate', () => {
    const page = (title: unknown, visits: unknown) =>
      record({ id: 'x', histUri: 'https://x.example/', title, visits }, 'history')
    const pages = [
      page('=HYPERLINK("x")', [
        { date: 1_000_000, type: 2 },
        { date: 3_000_000, type: 99 },
      ]),
      page('-plain', [{ date: 2_000_000 }, null]),
      page(7, 'none'),
    ]

    const read = pages.map(({ clear }) => readVisitedPage(clear))
    expect(textOf(historyCsv(read)).split('\r\n')).toEqual([
      '"visited","kind","url","title"',
      '"1970-01-01T00:00:03.000Z","","https://x.example/","\'=HYPERLINK(""x"")"',
      '"1970-01-01T00:00:02.000Z","","https://x.example/","\'-plain"',
      '"1970-01-01T00:00:01.000Z","typed","https://x.example/","\'=HYPERLINK(""x"")"',
      '"","","https://x.example/",""',
      '',
    ])
  })
})

describe('everythingJson', () => {
  it('supports collections of any name', () => {
    const records = ['constructor', '__proto__'].map((name) => record({ id: 'a' }, name))
    const text = textOf(everythingJson({ records, incomplete: new Map(), exportedAt: new Date(0) }))

    const held = [{ id: 'a', last_modified: 1_700_000_000_000 }]
    expect(Object.entries(JSON.parse(text).collections)).toEqual([
      ['constructor', held],
      ['__proto__', held],
    ])
  })

  it('names what could not be read', () => {
    const text = textOf(
      everythingJson({
        records: [bookmark('a', 'menu'), unreadable],
        incomplete: new Map([['forms', 'The storage does not respond']]),
        exportedAt: new Date(0),
      }),
    )

    expect(JSON.parse(text)).toMatchObject({
      exported: '1970-01-01T00:00:00.000Z',
      collections: { bookmarks: [{ id: 'a', last_modified: 1_700_000_000_000 }] },
      unreadable: [{ collection: 'bookmarks', id: 'foreign', problem: unreadable.problem }],
      incomplete: { forms: 'The storage does not respond' },
    })
  })
})

describe('bookmarksMarkdown and bookmarkUrls', () => {
  const bmkUri = 'https://b.example/a b>'
  const tops = treeOf('menu(a inner(b line twin))', {
    b: { title: '', bmkUri },
    line,
    twin: { title: '*B* [x]', bmkUri },
  })

  it("are lists in which titles and URLs can't become markup", () => {
    expect(bookmarksMarkdown(tops)).toBe(
      '# Bookmarks Menu\n\n- [a](<https://a.example/>)\n- **inner**\n' +
        '  - [https\\://b.example/a b\\>](<https://b.example/a%20b%3E>)\n' +
        '  - [\\*B\\* \\[x\\]](<https://b.example/a%20b%3E>)\n',
    )
  })

  it('keep what looks like an entity or an escape', () => {
    const odd = bookmarkTree([
      bookmark('a', 'menu', { title: '&lt;b&gt; Q&A', bmkUri: 'https://a.example/?a=1&lt;2\\*&b=c' }),
    ])

    expect(bookmarksMarkdown(odd)).toContain(
      '\n- [\\&lt;b\\&gt; Q&A](<https://a.example/?a=1\\&lt;2\\\\*&b=c>)\n',
    )
  })

  it('contain no control characters, and no link without a URL', () => {
    const odd = bookmarkTree([
      bookmark('a', 'menu', { title: 'red\u001b[31m', bmkUri: 'https://a.example/\u001b[2J' }),
      record({ id: 'feed', type: 'livemark', title: 'Feed', parentid: 'menu' }),
    ])

    expect(bookmarksMarkdown(odd)).toBe('# Bookmarks Menu\n\n- [red \\[31m](<https://a.example/%1B[2J>)\n')
    expect(bookmarkUrls(odd)).toBe('https://a.example/%1B[2J\n')
  })

  it('are URLs without duplicates and spaces', () => {
    expect(bookmarkUrls(tops)).toBe('https://a.example/\nhttps://b.example/a%20b>\n')
  })
})

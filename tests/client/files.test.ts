import { describe, expect, it } from 'bun:test'
import { bookmarksMarkdown, bookmarkUrls } from '../../src/client/bookmark-lists.ts'
import { bookmarkTree, foldersNamed } from '../../src/client/bookmarks.ts'
import { readVisitedPage } from '../../src/client/engines.ts'
import { bookmarksHtml, everythingJson, historyCsv, passwordsCsv } from '../../src/client/files.ts'
import { bookmark, folder, record, unreadable } from './records.ts'

describe('bookmarksHtml', () => {
  it('is what browsers import, with everything in titles and URLs escaped', () => {
    const tree = bookmarkTree([
      folder('toolbar', 'places', ['a', 'line']),
      bookmark('a', 'toolbar', {
        title: '<b>"&"</b>',
        bmkUri: 'https://a.example/?q="><script>',
        dateAdded: 1_700_000_000_123_456,
        tags: ['x', 'y&z'],
        keyword: 'k',
      }),
      record({ id: 'line', type: 'separator', parentid: 'toolbar' }),
    ])

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
    const tree = bookmarkTree([
      folder('menu', 'places', ['inner']),
      folder('inner', 'menu', ['a']),
      bookmark('a', 'inner', { dateAdded: { toString: 1 } }),
    ])

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

  it('supports any depth, and grows linearly with it', () => {
    const sizeOf = (depth: number) => {
      const chain = Array.from({ length: depth }, (_, index) => folder(`${index}`, `${index - 1}`, []))
      const text = bookmarksHtml(bookmarkTree([...chain, bookmark('deepest', `${depth - 1}`)]))
      expect(text.match(/<DL>/g)).toHaveLength(text.match(/<\/DL>/g)!.length)
      expect(text).toContain('https://deepest.example/')
      return text.length
    }

    expect(sizeOf(20_000)).toBeLessThan(sizeOf(2000) * 11)
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

    expect(passwordsCsv([record(clear, 'passwords')]).split('\r\n')).toEqual([
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

    const text = [...historyCsv(pages.map(({ clear }) => readVisitedPage(clear)))].join('')
    expect(text.split('\r\n')).toEqual([
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
    const text = everythingJson(
      ['constructor', '__proto__'].map((name) => record({ id: 'a' }, name)),
      new Map(),
      new Date(0),
    )

    const held = [{ id: 'a', last_modified: 1_700_000_000_000 }]
    expect(Object.entries(JSON.parse(text).collections)).toEqual([
      ['constructor', held],
      ['__proto__', held],
    ])
  })

  it('names what could not be read', () => {
    const text = everythingJson(
      [bookmark('a', 'menu'), unreadable],
      new Map([['forms', 'The storage does not respond']]),
      new Date(0),
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
  const tops = bookmarkTree([
    folder('menu', 'places', ['a', 'inner']),
    bookmark('a', 'menu'),
    folder('inner', 'menu', ['b', 'line', 'twin']),
    bookmark('b', 'inner', { title: '', bmkUri: 'https://b.example/a b>' }),
    record({ id: 'line', type: 'separator', parentid: 'inner' }),
    bookmark('twin', 'inner', { title: '*B* [x]', bmkUri: 'https://b.example/a b>' }),
  ])

  it("are lists in which titles and URLs can't become markup", () => {
    expect(bookmarksMarkdown(tops)).toBe(
      '# Bookmarks Menu\n\n- [a](<https://a.example/>)\n- **inner**\n' +
        '  - [https://b.example/a b\\>](<https://b.example/a%20b%3E>)\n' +
        '  - [\\*B\\* \\[x\\]](<https://b.example/a%20b%3E>)\n',
    )
  })

  it('keep what looks like an entity or an escape', () => {
    const odd = bookmarkTree([
      bookmark('a', 'menu', { title: '&lt;b&gt; Q&A', bmkUri: 'https://a.example/?a=1&lt;2\\*&b=c' }),
    ])

    expect(bookmarksMarkdown(odd)).toBe('- [\\&lt;b\\&gt; Q&A](<https://a.example/?a=1\\&lt;2\\\\*&b=c>)\n')
  })

  it('contain no control characters, and no link without a URL', () => {
    const odd = bookmarkTree([
      bookmark('a', 'menu', { title: 'red\u001b[31m', bmkUri: 'https://a.example/\u001b[2J' }),
      record({ id: 'feed', type: 'livemark', title: 'Feed', parentid: 'menu' }),
    ])

    expect(bookmarksMarkdown(odd)).toBe('- [red \\[31m](<https://a.example/%1B[2J>)\n')
    expect(bookmarkUrls(odd)).toBe('https://a.example/%20[2J\n')
  })

  it('are URLs without duplicates and spaces', () => {
    expect(bookmarkUrls(tops)).toBe('https://a.example/\nhttps://b.example/a%20b>\n')
  })
})

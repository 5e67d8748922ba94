import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { encrypted } from '../../support/records.ts'
import { endAll, makeFolder } from '../../support/executable.ts'
import { runToEnd } from '../../support/processes.ts'
import { startSandbox, type Sandbox } from '../../support/sandbox.ts'
import { accountFile, runWith, valuesOf } from './world.ts'
import type { PlainBookmark } from '../../../src/client/bookmark-formats.ts'

/** A bookmark with the titles of its parent folders. */
interface Link extends PlainBookmark {
  url: string
  folders: string[]
}

const own = [
  {
    title: 'With <i>markup</i> & "quotes"',
    bmkUri: 'https://own.example/?a=1&b="2"',
    keyword: 'own',
    dateAdded: 1,
  },
  { title: '=1+1', bmkUri: 'https://formula.example/', tags: ['Ärger', 'read later', 'C++'] },
  { title: 'One\nline\u0000and', bmkUri: 'https://lines.example/' },
  { title: 'Half \\ud800 of \uD800', bmkUri: 'https://half.example/' },
  { bmkUri: 'https://untitled.example/', tags: ['one tag'] },
  { title: 'Of Firefox', bmkUri: 'about:config' },
].map((bookmark, index) => {
  return { id: `ownbookmark${index}`, type: 'bookmark', parentid: 'ownfolder000', ...bookmark }
})
const ownFolder = {
  id: 'ownfolder000',
  type: 'folder',
  title: 'Größe, Maß / 日本',
  parentid: 'menu',
  children: own.map(({ id }) => id),
}

// Other programs, because an export is right if they import it.
describe('an export', () => {
  let sandbox: Sandbox
  let folder: string
  let links: Link[]
  beforeAll(async () => {
    sandbox = await startSandbox()
    const user = sandbox.addUser('exporter')
    fillSampleData(sandbox, user, { history: 50 })
    const made = [ownFolder, ...own].map((record) => encrypted(sandbox, user, 'bookmarks', record))
    sandbox.write(user, 'bookmarks', await Promise.all(made))
    const account = accountFile(valuesOf(sandbox, user))
    folder = makeFolder()
    const exports = {
      'b.html': 'bookmarks',
      'b.json': 'bookmarks',
      'b.csv': 'bookmarks',
      'h.csv': 'history',
      'h.json': 'history',
    }
    for (const [name, what] of Object.entries(exports)) {
      const format = name.slice(2)
      const { output, errors, code } = await runWith(account, ['export', what, '--format', format])
      expect([errors, code]).toEqual(['', 0])
      writeFileSync(join(folder, name), output)
    }
    links = linksOf(await Bun.file(join(folder, 'b.json')).json())
  })
  afterAll(async () => {
    await sandbox?.stop()
    endAll()
  })

  const run = async (command: string[], environment: Record<string, string> = {}) => {
    const { output, errors, code } = await runToEnd(command, {
      cwd: folder,
      environment: { HOME: folder, ...environment },
    })
    if (code !== 0) throw new Error(`"${command.join(' ')}" ended with ${code}:\n${output}${errors}`)
    return output
  }

  it.skipIf(!Bun.which('buku'))('as HTML is imported by buku: URLs, titles and tags', async () => {
    await run(['buku', '--nostdin', '--import', 'b.html', '--tacit', '--np'])
    const printed = await run(['buku', '--nostdin', '--print', '--json', '--np'])

    const imported: { uri: string; title: string; tags: string }[] = JSON.parse(printed)
    // It keeps each URL once, with the tags of all, and omits what only Firefox can open.
    const wanted = Map.groupBy(
      inHtml(links).filter(({ url }) => !url.startsWith('about:')),
      ({ url }) => url,
    )
    expect(imported.map(({ uri }) => uri)).toEqual([...wanted.keys()])
    for (const { uri, title, tags } of imported) {
      const same = wanted.get(uri)!
      expect(title).toBe(inOneLine(same[0]!.title ?? uri))
      const all = tags.split(',')
      const given = same.flatMap((link) => link.tags ?? []).map((tag) => tag.toLowerCase())
      const folders = same.flatMap((link) => wordsOf(link.folders))
      expect(all).toEqual(expect.arrayContaining(given))
      expect(folders).toEqual(expect.arrayContaining(wordsOf(all.filter((tag) => !given.includes(tag)))))
    }
    expect(imported.filter(({ tags }) => tags !== '').length).toBeGreaterThan(150)
  })

  it('as JSON has no unpaired surrogates, which jq and others reject', () => {
    expect(links.find(({ url }) => url === 'https://half.example/')?.title).toBe('Half \\ud800 of \uFFFD')
  })

  const parser = '/usr/share/php/Shaarli/NetscapeBookmarkParser/autoload.php'
  it.skipIf(!Bun.which('php') || !existsSync(parser))(
    'as HTML is imported by Shaarli: URLs, titles, dates, tags and folders, in order',
    async () => {
      const script = `require ${JSON.stringify(parser)};
        $parser = new Shaarli\\NetscapeBookmarkParser\\NetscapeBookmarkParser(true, [], '0', 'logs');
        echo json_encode($parser->parseFile('b.html'));`

      const imported: { uri: string; title: string; tags: string[]; time: number }[] = JSON.parse(
        await run(['php', '-r', script]),
      )

      const inFile = inHtml(links)
      expect(links.length).toBeGreaterThan(270)
      expect(imported.map(({ uri }) => uri)).toEqual(inFile.map(({ url }) => Bun.escapeHTML(url)))
      for (const [index, { title, tags, time }] of imported.entries()) {
        const link = inFile[index]!
        expect(title).toBe(Bun.escapeHTML(inOneLine(link.title ?? link.url)))
        // Folders become tags, and so does every word of a tag.
        expect(wordsOf(tags)).toEqual(wordsOf([...link.folders, ...(link.tags ?? [])]))
        if (link.added && Date.parse(link.added) > 1000)
          expect(time).toBe(Math.floor(Date.parse(link.added) / 1000))
      }
    },
  )

  it.skipIf(!Bun.which('python3'))('as CSV is read by Python', async () => {
    const script =
      'import csv, json, sys; print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline=""), strict=True))))'

    const bookmarks = JSON.parse(await run(['python3', '-X', 'utf8', '-c', script, 'b.csv']))
    const visits = JSON.parse(await run(['python3', '-X', 'utf8', '-c', script, 'h.csv']))

    const pages: { url: string; title: string; visits: { at: string; kind: string }[] }[] = await Bun.file(
      join(folder, 'h.json'),
    ).json()
    const expected = pages.flatMap(({ url, title, visits }) =>
      visits.map(({ at, kind }) => ({ visited: at, kind, url, title })),
    )
    expect(bookmarks).toEqual(
      links.map(({ url, title = '', folders, tags = [], keyword = '', added = '' }) => ({
        url,
        // Spreadsheets must not evaluate titles as formulas.
        title: title.replaceAll('\0', '').replace(/^=/, "'="),
        folder: folders.join(' / '),
        tags: tags.join(),
        keyword,
        added,
      })),
    )
    expect(visits).toHaveLength(expected.length)
    expect(visits).toEqual(expect.arrayContaining(expected))
  })
})

/** The order of the HTML file, in which the contents of the menu come first, and in no folder. */
function inHtml(links: Link[]): Link[] {
  const isInMenu = ({ folders }: Link) => folders[0] === 'Bookmarks Menu'
  const inMenu = links.filter(isInMenu).map((link) => ({ ...link, folders: link.folders.slice(1) }))
  return [...inMenu, ...links.filter((link) => !isInMenu(link))]
}

function linksOf(nodes: PlainBookmark[], folders: string[] = []): Link[] {
  return nodes.flatMap((node) => {
    if (node.type === 'folder') return linksOf(node.children!, [...folders, node.title!])
    return node.url === undefined ? [] : { ...node, url: node.url, folders }
  })
}

function wordsOf(texts: string[]): string[] {
  return texts.flatMap((text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])
}

function inOneLine(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ')
}

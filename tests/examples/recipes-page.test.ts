import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { Glob } from 'bun'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, executablePath, makeFolder } from '../support/executable.ts'
import { runProgram, runToEnd, startProgram } from '../support/processes.ts'
import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { hasAnswered, valuesOf } from '../cli/data/world.ts'
import { paste, piecesLeft, root, take } from './pages.ts'
import { encrypted, foreign, linesOf } from '../support/records.ts'
import type { ClearRecord } from '../../src/client/crypto.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const page = 'docs/recipes.md'
const title = `<b>&amp; "it's" $(touch ruined) \`touch ruined\`\n\u0000icon\u001Fx\uFFFE é 🦊`
const plainTitle = `<b>&amp; "it's" $(touch ruined) \`touch ruined\` icon x  é 🦊`
const url = `https://public.example/?q="><script>&a='$(touch%20ruined)`
const addedMs = Date.UTC(2026, 0, 31, 3, 17, 5)

// Each records its arguments, one per line, and its input.
const stub = `#!/bin/sh
name=$(basename "$0")
printf '%s\\n' "$@" > "$HOME/$name.arguments"
`
const stubs = {
  archivebox: `${stub}cat > "$HOME/archivebox.input"; pwd > "$HOME/archivebox.folder"; echo progress; exit "\${ARCHIVEBOX_CODE:-0}"\n`,
  dmenu: `${stub}grep -F 'Device of mine'\n`,
  rofi: `${stub}cat > "$HOME/rofi.input"; exit 1\n`,
  'xdg-open': stub,
  'notify-send': stub,
}

const missing = ['jq', 'git', 'curl'].filter((name) => !Bun.which(name))
const why = missing.length > 0 ? ` (NOT RUN: ${missing.join(', ')} missing)` : ''

describe.skipIf(missing.length > 0)(`docs/recipes.md${why}`, () => {
  let sandbox: Sandbox
  let user: SandboxUser
  let home: string
  beforeAll(async () => {
    sandbox = await startSandbox()
    user = sandbox.addUser('cook')
    fillSampleData(sandbox, user, { bookmarks: 20, history: 0 })
    await write('bookmarks', ...folderOfAll())
    sandbox.write(user, 'bookmarks', [{ id: 'foreignrecor', payload: foreign }])
    await write('tabs', {
      id: 'mydevice',
      clientName: 'Device\nof mine',
      tabs: [
        { title, urlHistory: [url], lastUsed: 1 },
        { title: 'Wicked', urlHistory: ['file:///etc/passwd'], lastUsed: 1 },
      ],
    })
    home = makeFolder()
    for (const name of ['bin', 'recipes', 'archivebox', 'public_html', '.config/sync-bridge'])
      mkdirSync(join(home, name), { recursive: true })
    symlinkSync(executablePath, join(home, 'bin/sync-bridge'))
    for (const [name, text] of Object.entries(stubs))
      writeFileSync(join(home, 'bin', name), text, { mode: 0o755 })
    const lines = linesOf(valuesOf(sandbox, user))
    writeFileSync(join(home, '.config/sync-bridge/account.env'), lines, { mode: 0o600 })
    writeFileSync(join(home, '.gitconfig'), '[user]\nname = Cook\nemail = cook@example.org\n')
    const { errors, code } = await type(take(page, 'links.jq <<'))
    expect([errors, code]).toEqual(['', 0])
  })
  afterAll(async () => {
    await sandbox?.stop()
    endAll()
  })

  const write = async (collection: string, ...records: ClearRecord[]) =>
    sandbox.write(
      user,
      collection,
      await Promise.all(records.map((record) => encrypted(sandbox, user, collection, record))),
    )
  const type = (lines: string, more: Record<string, string> = {}) =>
    paste(lines, { HOME: home, ...more }, join(home, 'bin'))
  const read = (name: string) => readFileSync(join(home, name), 'utf8')
  /** Saves a code block under the name of its recipe. */
  const save = (name: string, text: string) => writeFileSync(join(home, 'recipes', name), text)
  const warning = `1 record cannot be decrypted: bookmarks/foreignrecor
1 record is not what Firefox writes, and left out or written without this field:
  bookmarks/noaddressbmk: "bmkUri" is missing
`

  it('gives ArchiveBox the URLs of web pages, like under cron', async () => {
    save('archivebox', take(page, 'archivebox add'))
    const command = take(page, '17 3 * * *').trimEnd().split(' ').slice(5).join(' ')
    // Where install.sh puts the executable, and cron does not look.
    mkdirSync(join(home, '.local'))
    symlinkSync(join(home, 'bin'), join(home, '.local/bin'))

    const environment = { HOME: home, PATH: '/usr/bin:/bin' }
    const { output, errors, code } = await runToEnd(['sh', '-c', command], { environment })
    const failed = await runToEnd(['sh', '-c', command], {
      environment: { ...environment, ARCHIVEBOX_CODE: '1' },
    })

    const urls = read('archivebox.input').trimEnd().split('\n')
    expect([output, errors, code]).toEqual(['', warning, 0])
    expect(failed.output).toBe('progress\n')
    expect(read('archivebox.arguments')).toBe('add\n--parser=url_list\n')
    expect(read('archivebox.folder')).toBe(`${join(home, 'archivebox')}\n`)
    expect(urls.every((each) => /^https?:\/\/\S+$/.test(each))).toBe(true)
    expect(urls).toContain(url)
    expect(urls.length).toBeGreaterThan(5)
  })

  it.each([
    [
      'linkding',
      'POST /api/bookmarks/',
      { url, title: plainTitle, tag_names: ['read-later', 'été', 't'.repeat(64)] },
      512,
    ],
    ['karakeep', 'POST /api/v1/bookmarks', { url, title: plainTitle, type: 'link' }, 1000],
  ])(
    'adds to %s in the form that its API accepts, and names what it rejects',
    async (name, path, added, longest) => {
      const secret = `Token ${name}-secret`
      writeFileSync(join(home, `recipes/${name}.header`), `Authorization: ${secret}\n`, { mode: 0o600 })
      const bodies: { url: string; title: string }[] = []
      const asked = new Set<string>()
      await using server = Bun.serve({
        hostname: '127.0.0.1',
        port: 0,
        async fetch(request) {
          asked.add(`${request.method} ${new URL(request.url).pathname}`)
          const body = (await request.json()) as (typeof bodies)[number]
          const isSent = ['Authorization', 'Content-Type'].map((header) => request.headers.get(header)).join()
          const isTaken = isSent === `${secret},application/json` && body.url !== 'https://refused.example/'
          if (isTaken) bodies.push(body)
          return Response.json(body, { status: isTaken ? 201 : 400 })
        },
      })
      const script = take(page, `post ${name}`).replace(`https://${name}.example.org`, server.url.origin)

      const { output, errors, code } = await type(script)

      expect([output, code, [...asked]]).toEqual(['', 0, [path]])
      expect(errors).toStartWith(warning)
      expect(bodies).toContainEqual(added)
      // One is rejected and reported; the others are added anyway.
      expect(errors).toMatch(/curl: .* 400\nNot added: .*"https:\/\/refused\.example\/"/)
      expect(errors.match(/Not added/g)).toHaveLength(1)
      expect(bodies).toContainEqual(
        expect.objectContaining({ url: 'https://last.example/', title: 'https://last.example/' }),
      )
      expect(bodies.every((body) => /^https?:/.test(body.url) && body.title.length <= longest)).toBe(true)
    },
  )

  it('commits changed bookmarks', async () => {
    save('git', take(page, 'git commit'))

    const first = await type('sh ~/recipes/git')
    const again = await type('sh ~/recipes/git')
    await write(
      'bookmarks',
      link('gitgitgitgit', { title: 'For git', bmkUri: 'https://git.example/', parentid: 'menu' }),
    )
    const changed = await type('sh ~/recipes/git')

    const log = await runProgram(['git', '-C', join(home, 'bookmarks'), 'log', '-p', '--format=%s'])
    const quiet = { output: '', errors: warning, code: 0 }
    expect([first, again, changed]).toEqual([quiet, quiet, quiet])
    expect(log.match(/^Bookmarks of \d{4}-\d\d-\d\d$/gm)).toHaveLength(2)
    expect(log).toMatch(/^\+ +<DT><A HREF="https:\/\/git\.example\/">For git<\/A>$/m)
    expect(read('bookmarks/bookmarks.html')).toStartWith('<!DOCTYPE NETSCAPE-Bookmark-file-1>\n')
  })

  it('opens the tab that is chosen, and nothing if none is', async () => {
    save('tabs', take(page, 'xdg-open'))
    const [rofi, dmenu] = take(page, 'rofi -dmenu').trimEnd().split('\n')
    const none = await type(rofi!)
    const wasOpened = existsSync(join(home, 'xdg-open.arguments'))
    const one = await type(dmenu!)

    const lines = read('rofi.input').trimEnd().split('\n')
    expect([none, one].map(({ output, errors, code }) => [output, errors, code])).toEqual([
      ['', '', 0],
      ['', '', 0],
    ])
    expect(wasOpened).toBe(false)
    expect(lines).toContain(`Device of mine: ${plainTitle} ${url}`)
    expect(lines).toHaveLength(24)
    expect(lines.every((each) => / https?:\/\/\S+$/.test(each))).toBe(true)
    expect(read('xdg-open.arguments')).toBe(`${url}\n`)
  })

  describe('publishing', () => {
    it.skipIf(!Bun.which('xmllint'))(
      'makes a page whose links are web addresses, and nothing else',
      async () => {
        const { output, errors, code } = await type(take(page, '<li>'))

        const file = join(home, 'public_html/links.html')
        const hrefs = await runProgram(['xmllint', '--html', '--noout', '--xpath', '//a/@href', file])
        const elements = await runProgram(['xmllint', '--html', '--xpath', 'count(//*)', file])
        const text = await runProgram([
          'xmllint',
          '--html',
          '--encode',
          'utf-8',
          '--xpath',
          'string(//a[1])',
          file,
        ])
        expect([output, errors, code]).toEqual(['', warning, 0])
        expect(hrefs.trim().split('\n')).toHaveLength(5)
        expect(hrefs).not.toMatch(/javascript|file:/)
        expect(text.trim()).toBe(plainTitle)
        // html, head, meta, title, body, ul, and two for each link.
        expect(elements.trim()).toBe('16')
      },
    )

    it.skipIf(!Bun.which('xmllint'))('makes a feed that an XML parser accepts', async () => {
      const { output, errors, code } = await type(take(page, 'entry'))

      const file = join(home, 'public_html/links.atom')
      const xpath = (path: string) =>
        runProgram(['xmllint', '--xpath', path.replaceAll(/(\w+)(?=[[/)]|$)/g, '*[local-name()="$1"]'), file])
      expect([output, errors, code]).toEqual(['', warning, 0])
      expect(await xpath('count(/feed/entry)')).toBe('5\n')
      expect(await xpath('string(/feed/entry/title)')).toBe(`${plainTitle}\n`)
      expect(await xpath('string(/feed/entry/link/@href)')).toBe(`${url}\n`)
      expect(await xpath('string(/feed/updated)')).toBe('2026-01-31T03:17:05.000Z\n')
      expect(await xpath('string(/feed/entry/id)')).toBe('https://example.org/links.atom#nastylinkaaa\n')
    })
  })

  it('reports a new device once', async () => {
    save('device', take(page, 'notify-send'))
    const [note, watch] = take(page, 'watch clients').trimEnd().split('\n')
    await write('clients', { id: 'olddevice', name: 'Old' })
    const noted = await type(note!)
    const PATH = `${join(home, 'bin')}:/usr/bin:/bin`
    // The test only changes the polling interval.
    const command: [string, ...string[]] = [
      '/bin/sh',
      '-c',
      `exec ${watch!.replace('--every 300', '--every 1')}`,
    ]
    await write('clients', { id: 'olddevice', name: 'Old, renamed' })
    const before = sandbox.requests.storage.entries.length
    // One for the named collection, and one for the state that changes are compared with.
    await using watching = await startProgram(command, () => hasAnswered(sandbox, before, 2), {
      HOME: home,
      PATH,
    })
    await write(
      'clients',
      { id: 'olddevice', name: 'Old, renamed again' },
      { id: 'gonedevice', deleted: true },
    )
    await write('clients', { id: '-ve device', name: '<b>New</b>\n' })

    const devices = () => read('recipes/devices').trimEnd().split('\n')
    await eventually('the new device is noted', () => devices().includes('-ve%20device'))

    expect(noted).toEqual({ output: '', errors: '', code: 0 })
    expect(devices().filter((id) => id === 'olddevice')).toHaveLength(1)
    expect(devices()).toHaveLength(5)
    expect(read('notify-send.arguments')).toBe('--\nNew Firefox device\n&lt;b&gt;New&lt;/b&gt; \n')
    expect(watching.output()).toBe('')
  })

  it('has no code that is not run here', () => {
    expect(piecesLeft(page)).toEqual([])
    // The page shows no output, because a script that succeeds prints nothing; the tests above compare that.
    expect(readFileSync(join(root, page), 'utf8')).not.toContain('```text')
    // If a shell evaluated the title, this file would exist.
    expect([...new Glob('**/ruined').scanSync({ cwd: home, dot: true })]).toEqual([])
  })

  function link(id: string, more: Record<string, unknown>): ClearRecord {
    return { id, type: 'bookmark', parentid: 'publicfolder', ...more }
  }

  function folderOfAll(): ClearRecord[] {
    const links = [
      link('nastylinkaaa', {
        title,
        bmkUri: url,
        dateAdded: addedMs,
        tags: ['read later', 'été', 't'.repeat(100)],
      }),
      link('javascripted', { title: 'Bookmarklet', bmkUri: 'javascript:alert(1)\nhttps://x.example/' }),
      link('fileonmydisk', { title: 'File', bmkUri: 'file:///etc/passwd' }),
      link('noaddressbmk', { title: 'Nothing' }),
      link('refusedlinka', { title: 'Refused', bmkUri: 'https://refused.example/' }),
      link('longtitleaaa', { title: 'x'.repeat(3000), bmkUri: 'https://long.example/' }),
      link('halfsurrogat', { title: '\uD800', bmkUri: 'https://half.example/' }),
      link('lastlinkaaaa', { bmkUri: 'https://last.example/' }),
    ]
    const children = links.map(({ id }) => id)
    const folder = { id: 'publicfolder', type: 'folder', title: 'Public', parentid: 'menu', children }
    return [folder, ...links]
  }
})

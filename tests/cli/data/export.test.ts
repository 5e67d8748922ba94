import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync, readlinkSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { ClearRecord } from '../../../src/client/crypto.ts'
import { exportFormats } from '../../../src/client/export-formats.ts'
import { upload } from '../../client/world.ts'
import { eventually } from '../../support/eventually.ts'
import { executablePath, makeFolder, start } from '../../support/executable.ts'
import { hasNoTerminals } from '../../support/machine.ts'
import { runToEnd } from '../../support/processes.ts'
import { startOnTerminal } from '../../support/terminal.ts'
import { startPeople } from './people.ts'
import { runAlone, runWith } from './world.ts'

const { sandbox, someone, write, stop } = await startPeople()
afterAll(stop)

// The executable, where a pipe, a device, a full disk or a signal is involved.
describe('export', () => {
  const beginnings: [words: string[], beginning: RegExp][] = [
    [['bookmarks'], /^<!DOCTYPE NETSCAPE-Bookmark-file-1>\n/],
    [['bookmarks', '--format', 'firefox-json'], /^\{"guid":"root________",/],
    [['bookmarks', '--format', 'json'], /^\[\n\{"id":"toolbar"/],
    [['bookmarks', '--format', 'csv'], /^"url","title","folder","tags","keyword","added"\r\n"https?:/],
    [['bookmarks', '--format', 'urls'], /^https?:\/\/\S+\n/],
    [['bookmarks', '--format', 'markdown'], /^# Bookmarks Toolbar\n/],
    [['history'], /^"visited","kind","url","title"\r\n"\d{4}-[^"]*","link"/],
    [['history', '--format', 'json'], /^\[\n\{"url":"https?:/],
    [['passwords'], /^"url","username","password",/],
    [['passwords', '--format', 'json'], /^\[\n\{"id":"[^"]+","hostname":/],
    [['tabs'], /^\[\n\{"device":/],
    [['tabs', '--format', 'csv'], /^"device","title","url","used"\r\n/],
    [['tabs', '--format', 'urls'], /^https?:\/\//],
    [['tabs', '--format', 'markdown'], /^# \S.*\n\n- \[/],
    [['everything'], /^\{"exported":"\d{4}-/],
  ]

  it('is tested in every format, and the page about exports names them, with the default first', () => {
    const page = readFileSync(join(import.meta.dir, '../../../docs/your-data.md'), 'utf8')
    const tested = beginnings.map(([[what, , format]]) => `${what} ${format ?? ''}`)

    for (const [what, formats] of Object.entries(exportFormats)) {
      const [initial, ...others] = Object.keys(formats)
      const row = new RegExp(`^\\| \`${what}\` \\| (.*) \\|$`, 'm').exec(page)![1]!
      const [first, ...rest] = row.match(/(?<=`)[\w-]+(?=`)/g)!
      expect([first, ...rest.toSorted()]).toEqual([initial!, ...others.toSorted()])
      expect(tested).toEqual(expect.arrayContaining(['', ...others].map((format) => `${what} ${format}`)))
    }
  })

  it.each(beginnings)('writes %j', async (words, beginning) => {
    const { account } = someone(`export-${words.join('-')}`)

    const { output, errors, code } = await runWith(account, ['export', ...words])

    expect([errors, code]).toEqual(['', 0])
    expect(output).toMatch(beginning)
  })

  it('replaces a file completely, for its owner alone, and says what it wrote', async () => {
    const { account } = someone('filer')
    const folder = makeFolder({ 'bookmarks.html': 'old' })
    const file = join(folder, 'bookmarks.html')

    const { output, errors, code } = await runWith(account, ['export', 'bookmarks', '--output', file])
    const refused = await runWith(account, ['export', 'bookmarks', '--output', join(folder, 'no', 'file')])

    expect([output, errors, code]).toEqual(['', `Wrote 4 bookmarks to ${file}\n`, 0])
    expect(readFileSync(file, 'utf8')).toStartWith('<!DOCTYPE')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const below = await runWith(account, ['export', 'bookmarks', '--output', join(file, 'below')])

    expect(refused.errors).toContain(`Cannot write ${join(folder, 'no', 'file')}`)
    expect([below.errors, below.code]).toEqual([
      `sync-bridge: Cannot write ${join(file, 'below')} (ENOTDIR)\n`,
      1,
    ])
    expect(refused.code).toBe(1)
    expect(readdirSync(folder)).toEqual(['bookmarks.html'])
  })

  it('writes the file that a link names, even before it exists', async () => {
    const { account } = someone('linker')
    const folder = makeFolder()
    symlinkSync('target.html', join(folder, 'link.html'))

    const outcomes = [
      await runWith(account, ['export', 'bookmarks', '--output', join(folder, 'link.html')]),
      await runWith(account, ['export', 'tabs', '--output', join(folder, 'link.html')]),
    ]

    expect(outcomes.map(({ code }) => code)).toEqual([0, 0])
    expect(readlinkSync(join(folder, 'link.html'))).toBe('target.html')
    expect(readFileSync(join(folder, 'target.html'), 'utf8')).toStartWith('[')
  })

  it.each(['/dev/stdout', '/dev/fd/3'])('continues an open file: %s', async (path) => {
    const { account } = someone(`open ${path}`)
    const file = join(makeFolder(), 'file')
    const script = '{ echo before; "$0" export tabs --format urls --output "$1"; echo after; } > "$2" 3>&1'

    const { code } = await runToEnd(['/bin/sh', '-c', script, executablePath, path, file], {
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })

    expect([code, readFileSync(file, 'utf8')]).toEqual([
      0,
      expect.stringMatching(/^before\n(?:https:.*\n){2,}after\n$/),
    ])
  })

  it('leaves no partial file behind when it is interrupted', async () => {
    const { user, account } = someone('hasty')
    const titles = Array.from({ length: 20 }, (_, index) => `${index}`.repeat(100_000))
    await write(
      user,
      ...titles.map((title, index) => ({
        id: `large${index}`,
        type: 'bookmark',
        title,
        bmkUri: 'https://l.example/',
      })),
    )
    const folder = makeFolder()
    const environment = { SYNC_BRIDGE_ACCOUNT: account }
    await using exporting = start(['export', 'bookmarks', '--output', join(folder, 'file')], { environment })

    await eventually('it writes', () => readdirSync(folder).length > 0)
    await exporting.stop()

    expect(readdirSync(folder)).toEqual(['file'])
  })

  it('writes into an existing pipe, like into a device', async () => {
    const { account } = someone('piped')
    const pipe = join(makeFolder(), 'pipe')
    Bun.spawnSync(['mkfifo', pipe])
    const reader = Bun.spawn(['cat', pipe], { stdout: 'pipe', stderr: 'ignore', timeout: 30_000 })

    const { errors, code } = await runWith(account, ['export', 'tabs', '--format', 'urls', '--output', pipe])
    const isPipe = statSync(pipe).isFIFO()
    if (!isPipe) reader.kill()
    const read = await new Response(reader.stdout).text()

    expect([errors, code, isPipe]).toEqual([`Wrote 23 tabs to ${pipe}\n`, 0, true])
    expect(read).toMatch(/^(?:https:.*\n){2,}$/)
  })

  it('reports a full disk', async () => {
    const { account } = someone('full disk')

    const { errors, code } = await runWith(account, ['export', 'tabs', '--output', '/dev/full'])

    expect([errors, code]).toEqual(['sync-bridge: Cannot write /dev/full (no space left)\n', 1])
  })

  it('writes to standard output for --output -, and to a file whose name has the maximum length', async () => {
    const { account } = someone('outputs')
    const folder = makeFolder()
    const long = join(folder, `${'x'.repeat(251)}.csv`)

    const shown = await runToEnd([executablePath, 'export', 'tabs', '-fcsv', '-o', '-'], {
      cwd: folder,
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })
    const { code } = await runWith(account, ['export', 'tabs', '-fcsv', '-o', long])

    expect([shown.code, code]).toEqual([0, 0])
    expect(readFileSync(long, 'utf8')).toBe(shown.output)
    expect(readdirSync(folder)).toHaveLength(1)
  })

  it('accepts the first day of 1970, which begins before 1970 east of Greenwich', async () => {
    const { account } = someone('eastern')
    const command = ['export', 'history', '--since', '1970-01-01', '--format', 'json']

    const { output, code } = await runAlone(account, command, { TZ: 'Asia/Tokyo' })

    expect([JSON.parse(output).length, code]).toEqual([3, 0])
  })

  it('has one line for each URL', async () => {
    const { user, account } = someone('odd')
    const url = 'https://one.example/\nhttps://two.example/'
    const tabs = [[url], [''], []].map((urlHistory) => ({ title: 'T', urlHistory }))
    await upload({ sandbox, user }, 'tabs', { id: 'odd', tabs })

    const urls = await runWith(account, ['export', 'tabs', '--format', 'urls'])

    expect(urls.output).not.toMatch(/^$\n/m)
    expect(urls.output).toContain('https://one.example/%0Ahttps://two.example/\n')
  })

  it('exports one folder, and only changes since a time', async () => {
    const { user, account } = someone('chooser')
    const since = new Date(sandbox.nowMs() + 1000).toISOString()
    await write(
      user,
      { id: 'folderfolder', type: 'folder', title: 'Mine', parentid: 'menu', children: ['linkslinksli'] },
      {
        id: 'linkslinksli',
        type: 'bookmark',
        title: 'L',
        bmkUri: 'https://mine.example/',
        parentid: 'folderfolder',
      },
    )
    const urls = (...more: string[]) => runWith(account, ['export', 'bookmarks', '--format', 'urls', ...more])

    const byTitle = await urls('--folder', 'Mine')
    const byId = await urls('--folder', 'folderfolder', '--since', '1d')
    const later = await urls('--since', new Date(Date.parse(since) + 86_400_000 * 300).toISOString())
    const unknown = await urls('--folder', 'Yours')

    expect([byTitle.output, byId.output, later.output]).toEqual([
      'https://mine.example/\n',
      'https://mine.example/\n',
      '',
    ])
    expect([unknown.errors, unknown.code]).toEqual(['sync-bridge: There is no folder "Yours"\n', 1])
  })

  it('asks for an id if two folders have the same name', async () => {
    const { user, account } = someone('ambiguous')
    const twins = { type: 'folder', title: 'Twins' }
    await write(
      user,
      { id: 'outertwin', ...twins, parentid: 'menu', children: ['innertwin'] },
      { id: 'innertwin', ...twins, parentid: 'outertwin', children: [] },
    )

    const { errors, code } = await runWith(account, ['export', 'bookmarks', '--folder', 'Twins'])

    expect(errors).toContain('There are 2 folders "Twins": use one of these ids: outertwin (in ')
    expect(errors).toContain('innertwin (in ')
    expect(code).toBe(1)
  })

  it.skipIf(hasNoTerminals)(
    'has no control characters on a terminal, and all of them elsewhere',
    async () => {
      const { user, account } = someone('shown on a terminal')
      const title = 'red \u001b[31m C1 \u009b2J turned \u202e end'
      await write(user, { id: 'controlchars', type: 'bookmark', title, bmkUri: 'https://c.example/' })
      const command = ['export', 'bookmarks', '--format', 'csv']
      const env = { SYNC_BRIDGE_ACCOUNT: account }

      const [onTerminal, raw] = await Promise.all(
        [[], ['--raw']].map(async (more) => {
          const { child, shown, closed } = startOnTerminal([executablePath, ...command, ...more], { env })
          await Promise.all([child.exited, closed])
          return shown()
        }),
      )
      const piped = await runWith(account, command)

      expect(onTerminal).toContain('"red  [31m C1  2J turned   end"')
      for (const output of [raw, piped.output]) expect(output).toContain(`"${title}"`)
    },
  )

  it('names records that are not what Firefox writes, exports the rest, and exits 3', async () => {
    const { user, account } = someone('strange records')
    const deep = JSON.parse(`${'['.repeat(5000)}${']'.repeat(5000)}`)
    const odd: ClearRecord[] = [
      { id: 'oddfolder000', type: 'folder', parentid: 'menu', title: 'Odd', children: ['oddchild0000', 7] },
      {
        id: 'oddchild0000',
        type: 'bookmark',
        parentid: 'oddfolder000',
        title: 'C',
        bmkUri: 'https://c.example/',
      },
      { id: 'oddaddress00', type: 'bookmark', parentid: 'menu', title: 'No address', bmkUri: [] },
      { id: 'oddnested000', type: 'bookmark', parentid: 'menu', bmkUri: 'https://d.example/', title: deep },
    ]
    await write(user, ...odd)

    const { output, errors, code } = await runWith(account, ['export', 'bookmarks', '--format', 'csv'])
    const everything = await runWith(account, ['export', 'everything'])
    const listed = await runWith(account, ['ls', 'bookmarks', '--json'])

    expect(output).toContain('"https://c.example/","C","Bookmarks Menu / Odd"')
    expect(output).not.toContain('No address')
    expect(errors).toContain('1 record cannot be decrypted: bookmarks/oddnested000')
    expect(errors).toContain('bookmarks/oddfolder000: "children" is not a list of ids\n')
    expect(errors).toContain('bookmarks/oddaddress00: "bmkUri" is not text\n')
    expect([code, everything.code, listed.code]).toEqual([3, 3, 3])
    // Nothing is left out of these, but for the keys.
    const { collections, unreadable } = JSON.parse(everything.output)
    expect(collections.bookmarks).toContainEqual(expect.objectContaining({ title: 'No address' }))
    expect(Object.keys(collections)).not.toContain('crypto')
    expect(unreadable).toMatchObject([{ collection: 'bookmarks', id: 'oddnested000' }])
    expect(everything.errors).toContain('1 record cannot be decrypted: bookmarks/oddnested000')
    expect(listed.output).toContain('"title":"No address"')
    expect(everything.errors + listed.errors).not.toContain('oddaddress00')
  })
})

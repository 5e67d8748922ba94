import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { isReadable } from '../../../src/client/collection.ts'
import { readTree } from '../../../src/client/edit/tree.ts'
import { SyncClient } from '../../../src/client/sync-client.ts'
import { complaints, shapeOf } from '../../client/edit/trees.ts'
import { clearBookmark, clearFolder } from '../../client/records.ts'
import { accountAt, all, replaceKeys, upload } from '../../client/world.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { eventually } from '../../support/eventually.ts'
import { endAll, executablePath } from '../../support/executable.ts'
import { hasNoTerminals } from '../../support/machine.ts'
import { startOnTerminal } from '../../support/terminal.ts'
import { foreign } from '../../support/records.ts'
import { accountFile, runAlone, runWith, valuesOf } from './world.ts'

let bridge: TestBridge
beforeAll(async () => {
  bridge = await startTestBridge()
})
afterAll(async () => {
  await bridge.stop()
  endAll()
})

const folder = (id: string, parentid: string, title: string, ...children: string[]) =>
  clearFolder(id, parentid, children, { title })
const link = (id: string, parentid: string, more: object = {}) =>
  clearBookmark(id, parentid, { title: `Title ${id}`, ...more })
const odd = ' \\{1} <b> #x ^y /\n\u202e'

/** A user with bookmarks, a login and two visited pages. */
async function someone() {
  const { sandbox } = bridge
  const user = sandbox.addUser(`editor ${crypto.randomUUID()}`)
  const world = { sandbox, user }
  await replaceKeys(world)
  await upload(
    world,
    'bookmarks',
    folder('menu', 'places', 'menu', 'news', 'a', 'line', 'odd'),
    folder('toolbar', 'places', 'toolbar', 'c'),
    folder('unfiled', 'places', 'unfiled'),
    folder('mobile', 'places', 'mobile'),
    folder('news', 'menu', 'News', 'b'),
    link('a', 'menu', { tags: ['two words'], keyword: 'k' }),
    link('b', 'news'),
    link('c', 'toolbar'),
    link('odd', 'menu', { title: odd }),
    { id: 'line', type: 'separator', parentid: 'menu' },
  )
  await upload(world, 'passwords', {
    id: '{1}',
    hostname: 'https://x.example',
    username: 'u',
    password: 'p',
    timePasswordChanged: 1,
  })
  const pages = [
    'https://example.org/',
    'https://www.example.org/x',
    'https://notexample.org/',
    'example.org',
  ]
  await upload(
    world,
    'history',
    ...pages.map((histUri, index) => ({ id: `page${index}`, histUri, title: 't', visits: [] })),
  )
  const account = accountFile(valuesOf(sandbox, user))
  const client = new SyncClient(accountAt(bridge, user))
  const records = (name = 'bookmarks') => all(client.collection(name).records())
  return {
    user,
    account,
    write: (...clear: Parameters<typeof upload>[2][]) => upload(world, 'bookmarks', ...clear),
    records,
    shape: async () => shapeOf(readTree(await records())),
    clear: async (id: string, name?: string) =>
      (await records(name)).filter(isReadable).find(({ stored }) => stored.id === id)?.clear,
    run: (command: string[], more?: Record<string, string>, input?: string | Uint8Array) =>
      runWith(account, command, input, more),
    /** Runs `edit` with an editor that is a script; `$1` is the file. */
    edit: (script: string, ...words: string[]) =>
      runWith(account, ['edit', ...words], undefined, { EDITOR: `sh -c '${script}' -` }),
    /** The names of the files that `undo` reads. */
    saved: () =>
      readdirSync(join(dirname(account), 'sync-bridge'), { recursive: true })
        .map(String)
        .filter((name) => name.endsWith('.json')),
  }
}

const toUndo = (number: number) => `To take this back: sync-bridge undo ${number} --write\n`

// A bridge, which every command calls; the executable where it is killed or asks on a terminal.
describe('edit', () => {
  it('prints lines that it reads as what they were', async () => {
    const { run, shape, records } = await someone()
    const before = await shape()

    const printed = await run(['edit', '--print'])
    const again = await run(['edit', '--yes', '--file', '-'], {}, printed.output)

    expect(printed.output.split('\n').filter((line) => line !== '' && !line.startsWith('#'))).toEqual([
      'Bookmarks Toolbar/                                                      ^toolbar',
      '  Title c <https://c.example/>                                          ^c',
      'Bookmarks Menu/                                                         ^menu',
      '  News/                                                                 ^news',
      '    Title b <https://b.example/>                                        ^b',
      String.raw`  Title a <https://a.example/> #two\ words @k                           ^a`,
      '  ---                                                                   ^line',
      String.raw`  \ \\{1} \<b> #x \^y /\n\u{202e} <https://odd.example/>                ^odd`,
      'Other Bookmarks/                                                        ^unfiled',
      'Mobile Bookmarks/                                                       ^mobile',
    ])
    expect([again.errors, again.code]).toEqual(['Nothing to change\n', 0])
    expect(await shape()).toBe(before)
    expect((await records()).every(({ stored }) => stored.last_modified > 0)).toBe(true)
  })

  it('does not check what is unchanged, and checks it once it is changed', async () => {
    const { run, write, records } = await someone()
    const odd: object[] = [
      { bmkUri: undefined },
      { bmkUri: 'http://[bad' },
      { bmkUri: 'place:sort=8' },
      { title: 'x'.repeat(5000) },
      { tags: ['', 'x'.repeat(200)] },
      { keyword: ' K k' },
    ]
    await write(
      folder('mobile', 'places', 'mobile', ...odd.map((_, index) => `odd${index}`)),
      ...odd.map((fields, index) => link(`odd${index}`, 'mobile', fields)),
    )
    const before = await records()
    const { output } = await run(['edit', '--print'])
    const change = (from: string | RegExp, to: string) =>
      run(['edit', '--yes', '--file', '-'], {}, output.replace(from, to))

    const same = await change('', '')
    const untidy = await change(/ +\^/g, '\t^')
    const unread = await records()
    const other = await change('Title a', 'Other')
    const checked = await change('Title odd0', 'Named')
    await write(folder('mobile', 'places', 'mobile'), { id: 'odd0', deleted: true })
    const gone = await change('Title odd0', 'Named')

    expect([same.errors, same.code, untidy.errors, untidy.code]).toEqual([
      'Nothing to change\n',
      0,
      'Nothing to change\n',
      0,
    ])
    expect(unread).toEqual(before)
    expect([other.code, other.errors]).toEqual([0, expect.stringContaining('Saved: 1 renamed\n')])
    expect([checked.code, checked.errors]).toEqual([1, expect.stringContaining('the address is missing')])
    expect([gone.code, gone.errors]).toEqual([3, expect.stringContaining('"Named" was deleted by')])
  })

  it('saves what the editor has changed, after showing it, and takes it back', async () => {
    const { edit, run, shape, records, clear, saved, account } = await someone()
    const before = await shape()
    const script = [
      's/Title a/New/',
      's/#two.*words @k/#x/',
      '/\\^c$/d',
      '/\\^line$/{h;d}',
      '/^Mobile/G',
      '/^Other/a\\  Folder/\\n    Fresh <https://fresh.example> #y',
    ]

    const { errors, code } = await edit(`sed -i "${script.join(';')}" "$1"`, '--yes')
    const after = await records()
    const fresh = readTree(after).items.get('unfiled')!.children[0]!
    const preview = await run(['undo'])
    const undone = await run(['undo', '--write'])

    expect(errors).toBe(
      [
        '> Bookmarks Menu / --- to Mobile Bookmarks',
        '+ Other Bookmarks / Folder/',
        '+ Other Bookmarks / Folder / Fresh <https://fresh.example/> #y',
        '~ Bookmarks Menu / "Title a" to "New"',
        '~ Bookmarks Menu / "Title a" to #x',
        '- Bookmarks Toolbar / Title c <https://c.example/>',
        '1 moved, 1 folder added, 1 bookmark added, 1 renamed, 1 retagged, 1 deleted',
        'Saved: 1 moved, 1 folder added, 1 bookmark added, 1 renamed, 1 retagged, 1 deleted',
        toUndo(1),
      ].join('\n'),
    )
    expect([code, complaints(after)]).toEqual([0, []])
    const { dateAdded } = after.find(({ stored }) => stored.id === fresh)!.clear!
    expect(Number(dateAdded)).toBeGreaterThan(Date.now() - 3_600_000)
    expect((await records()).find(({ stored }) => stored.id === fresh)!.clear).toEqual({
      id: fresh,
      deleted: true,
    })
    expect(preview.errors).toContain('Nothing was written. Add --write to write this.')
    expect([undone.code, await shape()]).toEqual([0, before])
    expect(await clear('a')).toMatchObject({ keyword: 'k', tags: ['two words'] })
    const files = saved()
    expect(files).toHaveLength(2)
    for (const name of files) {
      const path = join(dirname(account), 'sync-bridge', name)
      expect(statSync(path).mode & 0o777).toBe(0o600)
      expect(readFileSync(path, 'utf8')).not.toMatch(/example|Title|two words/)
    }
  })

  it('edits one folder', async () => {
    const { edit, clear } = await someone()

    const { errors, code } = await edit(
      'sed -i "s/^News/Nouvelles/; /b.example/d" "$1"',
      '--folder',
      'News',
      '--yes',
    )
    const forced = await edit(
      'sed -i "s/^News/Nouvelles/; /b.example/d" "$1"',
      '--folder',
      'News',
      '--yes',
      '--delete',
      '1',
    )

    expect([errors.split('\n').at(-2), code]).toEqual([
      'sync-bridge: Nothing was written: this deletes 1 of 1. Add --delete 1 if that is right',
      1,
    ])
    expect(forced.code).toBe(0)
    expect(await clear('news')).toMatchObject({ title: 'Nouvelles', children: [], parentid: 'menu' })
  })

  it.each([
    ['one that has another', '@own', 'toolbar', 'c'],
    ['one that has none', '', 'menu', 'd'],
  ])('moves a keyword to %s, and says so', async (_, own, parent, id) => {
    const { run, write, clear } = await someone()
    await write(
      folder('menu', 'places', 'menu', 'news', 'a', 'line', 'odd', 'd'),
      link('d', 'menu'),
      link('c', 'toolbar', { keyword: 'own' }),
    )
    const { output } = await run(['edit', '--print'])
    const lines = output.replace(new RegExp(`(<https://${id}\\S+) ${own}`), '$1 @K ')

    const { errors, code } = await run(['edit', '--yes', '--file', '-'], {}, lines)

    const place = parent === 'menu' ? 'Bookmarks Menu' : 'Bookmarks Toolbar'
    const plan = errors.split('\n').slice(0, 4).toSorted()
    expect(plan).toEqual([
      '2 retagged',
      'Saved: 2 retagged',
      '~ Bookmarks Menu / "Title a" to #two words',
      `~ ${place} / "Title ${id}" to @k`,
    ])
    expect([code, (await clear(id))!.keyword, (await clear('a'))!.keyword]).toEqual([0, 'k', undefined])
    expect((await run(['undo', '--write'])).code).toBe(0)
    expect([(await clear(id))!.keyword ?? '', (await clear('a'))!.keyword]).toEqual([own.slice(1), 'k'])
  })

  it('refuses a keyword that two lines get', async () => {
    const { run, write, shape } = await someone()
    await write(link('c', 'toolbar', { keyword: 'own' }))
    const before = await shape()
    const { output } = await run(['edit', '--print'])
    const both = output.replace(/(<https:..b\S+)/, '$1 @k').replace('@own', '@K')
    const lines = both.split('\n')
    const [first, second] = [/@K/, /b.example.*@k/].map(
      (each) => lines.findIndex((line) => each.test(line)) + 1,
    )

    const { errors, code } = await run(['edit', '--yes', '--file', '-'], {}, both)
    const same = await run(
      ['edit', '--file', '-'],
      {},
      output.replace('@own', '@K').replace(/c.example/, 'a.example'),
    )

    expect(errors).toEndWith(`line ${second}: @k is in line ${first}, too, and belongs to one address\n`)
    expect(same.errors).toContain('to #two words @k\n')
    expect([code, await shape()]).toEqual([1, before])
  })

  it.each([
    ['an editor that fails', 'exit 3', 'Nothing was changed: the editor'],
    ['an empty file', ': > "$1"', 'Nothing was changed: the file is empty'],
    ['an editor that is not there', 'nowhere "$1" 2>/dev/null', 'Nothing was changed: the editor'],
  ])('changes nothing for %s', async (_, script, message) => {
    const { edit, shape } = await someone()
    const before = await shape()

    const { errors, code } = await edit(script, '--yes')

    expect(errors).toContain(`sync-bridge: ${message}`)
    expect([code, await shape()]).toEqual([1, before])
  })

  it('takes --delete only with --yes', async () => {
    const { account, edit } = await someone()
    const opened = join(dirname(account), 'opened')

    const { errors, code } = await edit(`touch ${opened}`, '--delete', '1')

    expect([code, errors.split('\n')[0]]).toEqual([2, 'sync-bridge: Use --delete only with --yes'])
    expect(existsSync(opened)).toBe(false)
  })

  it('opens a file that it cannot read again, with the error in it', async () => {
    const { edit, account, clear } = await someone()
    const seen = join(dirname(account), 'seen')
    const script = `head -1 "$1" >> ${seen}; grep -q ERROR "$1" && sed -i /nonsense/d "$1" || (echo nonsense; sed "s/Title a/Kept/" "$1") > ${seen}.new; test -e ${seen}.new && mv ${seen}.new "$1"; true`

    const { code } = await edit(script, '--yes')

    expect(readFileSync(seen, 'utf8').split('\n')[1]).toBe(
      '# ERROR in line 1: it is no "Title <address>", no "Folder/" and no "---". Correct it, or empty the file to give up.',
    )
    expect(code).toBe(0)
    expect(await clear('a')).toMatchObject({ title: 'Kept' })
  })

  it.each([
    ['  New', 'it is no "Title <address>"'],
    ['  Bad <nowhere>', '"nowhere" is no address'],
  ])('changes nothing for %p, and names the line', async (line, problem) => {
    const { run, shape } = await someone()
    const before = await shape()
    const { output } = await run(['edit', '--print'])

    const { errors, code } = await run(['edit', '--yes', '--file', '-'], {}, `${output}${line}\n`)

    expect(errors).toStartWith('sync-bridge: Nothing was changed: standard input, line ')
    expect(errors).toContain(problem)
    expect([code, await shape()]).toEqual([1, before])
  })

  it.each([
    ['the address of a livemark', '<https://feed', '<https://new', `"Feed": a livemark's address`],
    ['the address and title of a livemark', 'Feed <https://feed', 'New <https://new', `"Feed": a livemark's`],
    ['the title of a root', 'Mobile Bookmarks/', 'My Mobile/', '"Mobile Bookmarks": it is a root folder'],
  ])('refuses to change %s, by the line', async (_, from, to, problem) => {
    const { run, write, shape } = await someone()
    const livemark = { id: 'feed', type: 'livemark', parentid: 'mobile', title: 'Feed' }
    await write(folder('mobile', 'places', 'mobile', 'feed'), {
      ...livemark,
      feedUri: 'https://feed.example/',
    })
    const before = await shape()
    const { output } = await run(['edit', '--print'])
    const lines = output.replace(from, to)
    const number = lines.split('\n').findIndex((line) => line.includes(to)) + 1

    const { errors, code } = await run(['edit', '--yes', '--file', '-'], {}, lines)
    const renamed = await run(['edit', '--yes', '--file', '-'], {}, output.replace('Feed', 'Renamed'))

    expect(errors).toContain(`line ${number}: Cannot change ${problem}`)
    expect([code, renamed.errors.split('\n')[1]]).toEqual([1, '1 renamed'])
    expect(await shape()).toBe(before.replace('|Feed|', '|Renamed|'))
  })

  it('keeps what another device changes while the editor is open, and names what both changed', async () => {
    const { account, write, shape, records, clear } = await someone()
    const marker = join(dirname(account), 'opened')
    const script = `touch ${marker}; while [ -e ${marker} ]; do sleep 0.02; done; sed -i "s/Title [ab]/Mine/; /.c$/d; /News/s/News/Mine/" "$1"`
    const running = runWith(account, ['edit', '--yes'], undefined, { EDITOR: `sh -c '${script}' -` })
    await eventually('the editor is open', () => readdirSync(dirname(account)).includes('opened'))
    await write(
      link('a', 'menu', { title: 'Theirs', tags: ['two words'], keyword: 'k' }),
      folder('news', 'menu', 'News', 'b', 'z'),
      link('z', 'news'),
    )
    unlinkSync(marker)

    const { errors, code } = await running

    expect(errors).toContain('The title of "Theirs" was changed by another device meanwhile: it stays\n')
    expect(errors).toContain('Saved: 3 renamed, 1 deleted, except for the above\n')
    expect(code).toBe(3)
    expect(await clear('a')).toMatchObject({ title: 'Theirs' })
    expect(await clear('b')).toMatchObject({ title: 'Mine' })
    expect(await clear('news')).toMatchObject({ title: 'Mine', children: ['b', 'z'] })
    expect(await clear('c')).toBeUndefined()
    expect([complaints(await records()), (await shape()).includes('|Title z|')]).toEqual([[], true])
  })

  it('says that nothing was written if all of it was changed by another device', async () => {
    const { account, write, run } = await someone()
    const marker = join(dirname(account), 'opened')
    const script = `touch ${marker}; while [ -e ${marker} ]; do sleep 0.02; done; sed -i "s/Title b/Mine/" "$1"`
    const running = runWith(account, ['edit', '--yes'], undefined, { EDITOR: `sh -c '${script}' -` })
    await eventually('the editor is open', () => readdirSync(dirname(account)).includes('opened'))
    await write(link('b', 'news', { title: 'Theirs' }))
    unlinkSync(marker)

    const { errors, code } = await running
    const undo = await run(['undo'])

    expect(errors).toEndWith(
      '1 renamed\nThe title of "Theirs" was changed by another device meanwhile: it stays\nNothing was written\n',
    )
    expect([code, undo.errors]).toEqual([3, 'sync-bridge: There is nothing to take back for this account\n'])
  })

  it('leaves out printed lines of what was deleted meanwhile, and names those that were changed', async () => {
    const { run, write, clear } = await someone()
    const { output } = await run(['edit', '--print'])
    const lines = output.replace('Title a', 'Mine').replace('Title b', 'Lost')
    await write(
      { id: 'news', deleted: true },
      { id: 'b', deleted: true },
      folder('menu', 'places', 'menu', 'a', 'line', 'odd'),
    )

    const inGone = lines.replace(/^.*\^b\n/m, '$&    New <https://new.example>\n')
    const refused = await run(['edit', '--yes', '--file', '-'], {}, inGone)
    const { errors, code } = await run(['edit', '--yes', '--file', '-'], {}, lines)

    expect([refused.code, refused.errors]).toEqual([
      1,
      expect.stringContaining('another device has deleted or moved its folder: put it into another one'),
    ])
    expect(errors).toStartWith('"Lost" was deleted by another device meanwhile\n~ ')
    expect([code, (await clear('a'))!.title, await clear('b')]).toEqual([3, 'Mine', undefined])

    const { output: some } = await run(['edit', '--print', '--folder', 'toolbar'])
    await write(folder('toolbar', 'places', 'toolbar'), folder('mobile', 'places', 'mobile', 'c'))
    await write(link('c', 'mobile'))
    const one = ['edit', '--yes', '--folder', 'toolbar', '--file', '-']
    const moved = await run(one, {}, some.replace('Title c', 'Lost'))
    expect([moved.code, moved.errors]).toEqual([
      3,
      '"Lost" was moved out of this folder by another device meanwhile\nNothing to change\n',
    ])
  })

  it('takes printed lines for changes only where they were changed', async () => {
    const { run, write, shape, clear } = await someone()
    const { output } = await run(['edit', '--print'])
    await write(
      folder('menu', 'places', 'menu', 'odd', 'line', 'news', 'a'),
      folder('news', 'menu', 'News', 'b', 'c'),
      folder('toolbar', 'places', 'toolbar', 'z'),
      folder('unfiled', 'places', 'unfiled'),
      link('a', 'menu', { title: 'Theirs', keyword: 'other' }),
      link('c', 'news'),
      link('z', 'toolbar'),
      { id: 'odd', deleted: true },
    )
    const before = await shape()
    const give = (lines: string) => run(['edit', '--yes', '--file', '-'], {}, lines)

    const same = await give(output)
    const after = await shape()
    const { errors, code } = await give(output.replace('News/', 'Mine/').replace(/^(.*)(\^a)$/m, '  $1$2'))

    expect([same.errors, same.code, after]).toEqual(['Nothing to change\n', 0, before])
    expect([errors.split('\n').at(-3), code]).toEqual(['Saved: 1 moved, 1 renamed', 0])
    expect(await clear('news')).toMatchObject({ title: 'Mine', children: ['b', 'a', 'c'] })
    expect(await clear('a')).toMatchObject({ title: 'Theirs', parentid: 'news', keyword: 'other' })
  })

  it('does not apply printed lines to what is newer than they', async () => {
    const { run, write, clear, account } = await someone()
    const file = join(dirname(account), 'lines')
    const { output } = await run(['edit', '--print'])
    writeFileSync(file, output.replace('Title a', 'Mine').replace(/^.*\^line\n/m, ''))
    await write(
      link('a', 'menu', { title: 'Theirs', tags: ['two words'], keyword: 'k' }),
      folder('toolbar', 'places', 'toolbar', 'c', 'z'),
      link('z', 'toolbar'),
    )

    const { errors, code } = await run(['edit', '--yes', '--file', file])
    const without = await run(['edit', '--yes', '--file', '-'], {}, output.replace(/^# As of.*\n/m, ''))

    expect(errors).toContain(
      '"Theirs" was changed by another device since the lines were printed: it stays\n',
    )
    expect(errors).toContain('Saved: 1 deleted\n')
    expect(code).toBe(3)
    expect([await clear('a'), await clear('z')]).toMatchObject([{ title: 'Theirs' }, { title: 'Title z' }])
    expect(without.errors).toContain('The lines do not say when they were printed')
  })

  it('keeps what another device adds after the lines were printed, and still names what it changes', async () => {
    const { run, write, clear } = await someone()
    const { output } = await run(['edit', '--print'])
    await write(folder('toolbar', 'places', 'toolbar', 'z', 'c'), link('z', 'toolbar'))
    const give = (lines: string) => run(['edit', '--yes', '--file', '-'], {}, lines)

    const same = await give(output)
    const edited = await give(output.replace('Title a', 'Mine').replace(/^.*\^line\n/m, ''))
    await write(link('c', 'toolbar', { title: 'Theirs' }))
    const both = await give(output.replace(/^.*\^c\n/m, ''))

    expect([same.errors, same.code]).toEqual(['Nothing to change\n', 0])
    expect([edited.errors.split('\n').at(-3), edited.code]).toEqual(['Saved: 1 renamed, 1 deleted', 0])
    expect(both.errors).toContain('"Theirs" was changed by another device since the lines were printed')
    expect([both.code, (await clear('c'))!.title, (await clear('toolbar'))!.children]).toEqual([
      3,
      'Theirs',
      ['z', 'c'],
    ])
  })

  it('says that its file cannot be written', async () => {
    const { account } = await someone()

    const { code, errors } = await runAlone(account, ['edit'], { EDITOR: 'true', TMPDIR: '/nowhere' })

    expect([code, errors]).toEqual([
      1,
      'sync-bridge: Nothing was changed: cannot write /nowhere (no such file)\n',
    ])
  })

  it('leaves nothing decrypted after it was killed, but names what was saved in the editor', async () => {
    const { run, account } = await someone()
    const seen = join(dirname(account), 'seen')
    /** The editor's file, once the command was killed while the editor ran. */
    const file = () => readFileSync(seen, 'utf8').trim()
    const killed = async (save: string) => {
      rmSync(seen, { force: true })
      const script = `${save}; echo "$1" > ${seen}.draft; mv ${seen}.draft ${seen}; sleep 5`
      const child = Bun.spawn([executablePath, 'edit'], {
        env: {
          ...process.env,
          SYNC_BRIDGE_ACCOUNT: account,
          XDG_STATE_HOME: dirname(account),
          EDITOR: `sh -c '${script}' -`,
        },
        stdio: ['ignore', 'ignore', 'ignore'],
      })
      await eventually('the editor has saved', () => existsSync(seen))
      child.kill('SIGKILL')
      await child.exited
      return file()
    }

    const unsaved = await killed(':')
    await run(['ls'])
    await killed('echo "# mine" >> "$1"')
    await run(['ls'])
    const next = await run(['edit', '--print'])
    const last = await run(['edit', '--print'])

    expect(existsSync(dirname(unsaved))).toBe(false)
    expect(readFileSync(file(), 'utf8')).toEndWith('# mine\n')
    expect(next.errors).toBe(
      `An edit was interrupted. Your lines are kept in ${file()}: continue with "sync-bridge edit --file ${file()}"\n`,
    )
    expect(last.errors).toBe('')
    rmSync(dirname(file()), { recursive: true })
  })

  it('keeps the lines when the storage refuses them, for another try', async () => {
    const { edit, run, shape, clear, saved } = await someone()
    const before = await shape()
    const { limits } = bridge.sandbox.switches
    const largest = limits.max_record_payload_bytes

    limits.max_record_payload_bytes = 100
    const { errors, code } = await edit('sed -i "s/Title a/Kept/" "$1"', '--yes')
    limits.max_record_payload_bytes = largest
    const unchanged = await shape()
    const kept = saved()
    const [path] = /\/\S+\/bookmarks\.txt/.exec(errors) ?? []
    const again = await run(['edit', '--yes', '--file', path!])
    rmSync(dirname(path!), { recursive: true })

    expect(errors).toContain(
      `Your lines are kept in ${path}: continue with "sync-bridge edit --file ${path}"\n`,
    )
    expect(errors).toContain('sync-bridge: Nothing was written: ')
    expect([code, unchanged, kept, again.code]).toEqual([1, before, [], 0])
    expect(await clear('a')).toMatchObject({ title: 'Kept' })
  })

  it.skipIf(hasNoTerminals)('asks on the terminal, twice before it deletes more than a third', async () => {
    const { account, shape } = await someone()
    const before = await shape()
    const play = async (answers: string[]) => {
      const environment = {
        SYNC_BRIDGE_ACCOUNT: account,
        XDG_STATE_HOME: dirname(account),
        PATH: process.env.PATH!,
        TMPDIR: dirname(account),
      }
      const EDITOR = 'sed -i "/example/d"'
      const terminal = startOnTerminal([executablePath, 'edit'], { env: { ...environment, EDITOR } })
      for (const [index, answer] of answers.entries()) {
        const question = ['Save this? [y/N]', 'Write the number 4 to confirm:'][index]!
        await eventually(question, () => terminal.shown().includes(question))
        terminal.type(`${answer}\r`)
      }
      await terminal.closed
      return [await terminal.child.exited, terminal.shown().includes('\nNothing was written\r')]
    }

    const outcomes = [await play(['']), await play(['y', 'y'])]
    const unchanged = await shape()
    outcomes.push(await play(['y', '4']))
    const kept = readdirSync(dirname(account)).filter((name) => name.startsWith('sync-bridge-'))

    expect(unchanged).toBe(before)
    expect(outcomes).toEqual([
      [1, true],
      [1, true],
      [0, false],
    ])
    // The lines are kept after each no.
    expect(kept).toHaveLength(2)
    expect(await shape()).not.toContain('example')
  })
})

describe('rm', () => {
  it('shows what it would delete, deletes it with --write, and names what is missing', async () => {
    const { run, records, clear } = await someone()

    const preview = await run(['rm', 'bookmarks', 'news', 'nope'])
    const untouched = await clear('b')
    const { output, errors, code } = await run(['rm', 'bookmarks', 'news', '--write'])

    expect(preview.output).toBe(
      '- Bookmarks Menu / News/\n- Bookmarks Menu / News / Title b <https://b.example/>\n',
    )
    expect(preview.errors).toBe(
      'bookmarks: 2 deleted. Nothing was written. Add --write to write this.\nNot found, or cannot be decrypted: nope\n',
    )
    expect([preview.code, untouched?.id]).toEqual([3, 'b'])
    expect([output, code]).toEqual([preview.output, 0])
    expect(errors).toBe(`bookmarks: 2 deleted, on all devices after their next sync\n${toUndo(1)}`)
    expect(complaints(await records())).toEqual([])
    expect((await records()).filter(({ clear }) => clear!.deleted).map(({ stored }) => stored.id)).toEqual(
      expect.arrayContaining(['news', 'b']),
    )
  })

  it('forgets a site, with its subdomains, and names what it cannot decrypt', async () => {
    const { run, clear, user } = await someone()

    const { output, errors, code } = await run(['rm', 'history', '--site', 'example.org', '--write'])
    const kept = await Promise.all([clear('page2', 'history'), clear('page3', 'history')])
    const undone = await run(['undo', '--write'])
    bridge.sandbox.write(user, 'history', [{ id: 'foreign', payload: foreign }])
    const unsure = await run(['rm', 'history', '--site', 'example.org'])

    expect(output.split('\n').toSorted()).toEqual([
      '',
      '- t <https://example.org/>',
      '- t <https://www.example.org/x>',
    ])
    expect([code, kept.map((each) => each?.id), undone.code]).toEqual([0, ['page2', 'page3'], 0])
    expect(errors).toStartWith('history: 2 deleted, on all devices after their next sync\n')
    expect([unsure.code, unsure.output]).toEqual([3, output])
    expect(unsure.errors).toContain('1 record cannot be decrypted, and may be of example.org, too: foreign\n')
    expect(await clear('page0', 'history')).toMatchObject({ histUri: 'https://example.org/' })
  })
})

it('takes no text that is not UTF-8', async () => {
  const { run, edit, clear, shape } = await someone()
  const before = await shape()

  const latin1 = await edit('sed -i "s/Title a/caf\\xe9/" "$1"', '--yes')
  const [file] = /\/\S+bookmarks.txt/.exec(latin1.errors)!
  const again = await run(['edit', '--file', file, '--yes'])
  const password = await run(
    ['set', 'passwords', '{1}', '--password-stdin', '--write'],
    {},
    Buffer.from('café\n', 'latin1'),
  )
  rmSync(dirname(file), { recursive: true })

  expect([latin1.code, again.code, again.errors]).toEqual([1, 1, `sync-bridge: ${file} is not in UTF-8\n`])
  expect([password.code, password.errors]).toEqual([1, 'sync-bridge: Standard input is not in UTF-8\n'])
  expect(await shape()).toEqual(before)
  expect(await clear('{1}', 'passwords')).toMatchObject({ password: 'p' })
})

it('keeps keys and tokens out of the environment of an editor', async () => {
  const { run, account } = await someone()
  const seen = join(dirname(account), 'seen')

  await run(['edit'], {
    EDITOR: `sh -c 'env > "${seen}"' -`,
    BEARER_TOKEN: 'token',
    SYNC_KEY: 'key',
    FORMER_KEYS: 'keys',
    REFRESH_TOKEN: 'refresh',
    VISIBLE: 'yes',
  })

  const names = readFileSync(seen, 'utf8').match(/^(?!_)\w+/gm)
  expect(names).toContain('VISIBLE')
  expect(names!.filter((name) => /TOKEN|KEY/.test(name))).toEqual([])
})

describe('set', () => {
  it('changes a login, and never shows a password', async () => {
    const { run, clear } = await someone()
    const words = ['set', 'passwords', '{1}', '--username', 'new', '--password-stdin']

    const preview = await run(words, {}, 'geheim\n')
    const untouched = await clear('{1}', 'passwords')
    const { output, errors, code } = await run([...words, '--write'], {}, 'geheim\n')
    const absent = await run(['set', 'passwords', '{2}', '--username', 'x'])

    expect(preview.output).toBe('~ https://x.example u: username, password, timePasswordChanged\n')
    expect(untouched).toMatchObject({ username: 'u', password: 'p' })
    expect([code, output + errors]).toEqual([0, expect.not.stringContaining('geheim')])
    expect(await clear('{1}', 'passwords')).toMatchObject({ username: 'new', password: 'geheim' })
    expect(Number((await clear('{1}', 'passwords'))!.timePasswordChanged)).toBeGreaterThan(1)
    expect([absent.code, absent.errors]).toEqual([1, 'sync-bridge: There is no login "{2}" in passwords\n'])
  })
})

it.skipIf(hasNoTerminals)(
  'set corrects a password that is typed, and takes no other keys for a part of it',
  async () => {
    const { account, clear } = await someone()
    const type = async (keys: string) => {
      const env = { SYNC_BRIDGE_ACCOUNT: account, XDG_STATE_HOME: dirname(account) }
      const words = ['set', 'passwords', '{1}', '--username', 'me', '--password-stdin', '--write']
      const command = [executablePath, ...words]
      const terminal = startOnTerminal(command, { env })
      await eventually('the question', () => terminal.shown().includes('New password'))
      terminal.type(keys)
      return terminal.child.exited
    }

    const arrow = await type('new\u001b[D\r')
    const interrupted = await type('\u0003')
    const untouched = await clear('{1}', 'passwords')
    const corrected = await type('old\u0015ax\u007f\u007f\u007fnéx\u007fw\r')

    expect([arrow, interrupted, corrected]).toEqual([1, 1, 0])
    expect(untouched).toMatchObject({ username: 'u', password: 'p' })
    expect(await clear('{1}', 'passwords')).toMatchObject({ username: 'me', password: 'néw' })
  },
)

describe('undo', () => {
  it('takes back a changed login, and shows that first', async () => {
    const { run, clear } = await someone()
    await run(['set', 'passwords', '{1}', '--username', 'new', '--write'])

    const preview = await run(['undo'])
    const undone = await run(['undo', '--write'])

    expect([preview.output, undone.code]).toEqual(['~ https://x.example new: username\n', 0])
    expect(await clear('{1}', 'passwords')).toMatchObject({ username: 'u' })

    await run(['set', 'passwords', '{1}', '--username', 'newer', '--write'])
    const late = await run(['undo', '1', '--write'])
    expect([late.code, late.errors]).toEqual([3, expect.stringContaining('"{1}" has another username since')])
    expect(await clear('{1}', 'passwords')).toMatchObject({ username: 'newer' })
  })

  it('keeps what was changed since, names it, and takes back the command before it next', async () => {
    const { run, edit, write, clear } = await someone()
    await edit('sed -i "s/Title a/One/" "$1"', '--yes')
    await edit('sed -i "s/Title b/Two/; s/Title c/Three/" "$1"', '--yes')
    await write(link('b', 'news', { title: 'Later' }))

    const second = await run(['undo', '--write'])
    const first = await run(['undo', '--write'])
    const nothing = await run(['undo'])
    const list = await run(['undo', '--list'])

    expect(second.errors).toContain(
      'The title of "Later" was changed by another device meanwhile: it stays\n',
    )
    expect([second.code, first.code]).toEqual([3, 0])
    expect([await clear('a'), await clear('b')]).toMatchObject([{ title: 'Title a' }, { title: 'Later' }])
    expect([nothing.code, nothing.errors]).toEqual([
      1,
      'sync-bridge: There is nothing to take back for this account\n',
    ])
    expect(list.output.split('\n').map((line) => line.replace(/\d{4}-\S+ \S+ +/, ''))).toEqual([
      '   1  edit     1 renamed (taken back)',
      '   2  edit     2 renamed (taken back in part)',
      '   3  undo     bookmarks: 1 renamed',
      '   4  undo     bookmarks: 1 renamed',
      '',
    ])
  })

  it('leaves a keyword to the address that got it since, and gives it back once that has gone', async () => {
    const { run, edit, clear } = await someone()
    await edit('sed -i "s/ @k//" "$1"', '--yes')
    await edit('sed -i "/Title b/s/>/> @k/" "$1"', '--yes')

    const shown = await run(['undo', '1'])
    const refused = await run(['undo', '1', '--write'])
    const between = [(await clear('a'))!.keyword, (await clear('b'))!.keyword]
    const newer = await run(['undo', '2', '--write'])
    const older = await run(['undo', '1', '--write'])

    expect([shown.output, refused.code, newer.code, older.code]).toEqual(['', 3, 0, 0])
    expect(refused.errors).toContain(
      '"Title a" does not get its keyword "k" back, which another address has\n',
    )
    expect(between).toEqual([undefined, 'k'])
    expect([(await clear('a'))!.keyword, (await clear('b'))!.keyword]).toEqual(['k', undefined])
  })

  it('is still to be taken back if nothing of it could be', async () => {
    const { run, edit, write, clear } = await someone()
    await edit('sed -i "s/Title a/One/" "$1"', '--yes')
    await edit('sed -i "s/Title b/Two/" "$1"', '--yes')
    await write(link('b', 'news', { title: 'Later' }))

    const refused = await run(['undo', '--write'])
    const list = await run(['undo', '--list'])
    const again = await run(['undo', '--write'])
    await write(link('b', 'news', { title: 'Two' }))
    const late = await run(['undo', '--write'])

    const told = '2 was not taken back: "sync-bridge undo --list" shows those before it\n'
    expect([refused.code, again.code, late.code]).toEqual([3, 3, 0])
    expect([refused.errors, again.errors]).toEqual([
      expect.stringContaining(told),
      expect.stringContaining(told),
    ])
    expect(list.output).not.toContain('taken back')
    expect([await clear('a'), await clear('b')]).toMatchObject([{ title: 'One' }, { title: 'Title b' }])
  })

  it('puts back what Firefox would not take, and names what it cannot put back beside the rest', async () => {
    const { run, edit, write, clear } = await someone()
    await write(folder('news', 'menu', 'News', 'b', 'x'), link('x', 'news', { bmkUri: '' }))
    const before = await clear('x')
    const removed = await run(['rm', 'bookmarks', 'x', '--write'])
    const whole = await run(['undo', '--write'])
    const after = await clear('x')
    await edit('sed -i "s/Title a/One/; /Title x/d" "$1"', '--yes', '--delete', '1')
    // A folder can't become a bookmark in Firefox, but other programs write this.
    await write(link('news', 'menu'))

    const partial = await run(['undo', '--write'])

    expect([removed.code, whole.code, after]).toEqual([0, 0, before])
    expect([partial.code, partial.errors]).toEqual([
      3,
      expect.stringContaining('Cannot put "Title x" into "Title news": it is no folder\n'),
    ])
    expect(await clear('a')).toMatchObject({ title: 'Title a' })
  })

  it('refuses what belongs to another account, and is gone with disconnect --forget', async () => {
    const { run, saved, account } = await someone()
    const other = await someone()
    await run(['add', 'https://one.example/'])
    await other.run(['add', 'https://two.example/'])
    const pathIn = (home: string, names: string[]) =>
      join(
        dirname(home),
        'sync-bridge',
        names.find((name) => name.endsWith('1.json'))!,
      )
    copyFileSync(pathIn(account, saved()), pathIn(other.account, other.saved()))

    const foreign = await other.run(['undo', '--write'])
    const { code } = await run(['disconnect', '--forget'])

    expect(foreign.errors).toContain(
      'Cannot undo this: it was saved for another account, or before a password reset\n',
    )
    expect([foreign.code, code, saved()]).toEqual([1, 0, []])
  })

  it('keeps the last twenty commands, and none with --no-undo', async () => {
    const { run, account, saved } = await someone()
    await run(['add', 'https://none.example/', '--no-undo'])
    await run(['add', 'https://1.example/'])
    const [first] = saved()
    const path = join(dirname(account), 'sync-bridge', first!)
    for (let number = 2; number <= 20; number += 1) copyFileSync(path, join(dirname(path), `${number}.json`))
    for (const number of [21, 22]) await run(['add', `https://${number}.example/`])

    const numbers = saved().flatMap((name) => /(\d+)\.json$/.exec(name)?.[1] ?? [])

    expect(numbers.map(Number).toSorted((one, other) => one - other)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 3),
    )
  })
})

describe('add', () => {
  it('adds several, from standard input too, into a folder that it makes once', async () => {
    const { run, records } = await someone()

    const first = await run([
      'add',
      'https://one.example',
      'https://two.example',
      '--make-folder',
      'A/B',
      '--tag',
      'x',
    ])
    const second = await run(['add', '--make-folder', 'A/B'], {}, 'https://three.example Third one\n\n')

    const tree = readTree(await records())
    const [a] = tree.items.get('unfiled')!.children
    const [b] = tree.items.get(a!)!.children
    expect(first.errors).toBe(`Added 2 bookmarks to Other Bookmarks / A / B\n${toUndo(1)}`)
    expect(tree.items.get(b!)!.children).toEqual(`${first.output}${second.output}`.trim().split('\n'))
    expect(tree.items.get(second.output.trim())).toMatchObject({
      title: 'Third one',
      address: 'https://three.example/',
    })
    expect(complaints(await records())).toEqual([])
  })

  it.skipIf(hasNoTerminals)('does not wait on a terminal for addresses', async () => {
    const { account } = await someone()
    const env = { SYNC_BRIDGE_ACCOUNT: account }

    const { child, shown, closed } = startOnTerminal([executablePath, 'add'], { env })
    const [code] = await Promise.all([child.exited, closed])

    expect([code, shown()]).toEqual([2, expect.stringContaining('Missing URL')])
  })

  it('says that there is nothing to add', async () => {
    const { run } = await someone()

    const { errors, code } = await run(['add'], {}, '\n')

    expect([code, errors]).toEqual([
      2,
      'sync-bridge: Nothing to add: standard input has no address\nTry "sync-bridge add --help".\n',
    ])
  })

  it('leaves none unlisted when four add to one folder at once', async () => {
    const { run, records, clear } = await someone()
    const names = ['p', 'q', 'r', 's']

    const results = await Promise.all(
      names.map((name) => run(['add', `https://${name}.example`, '--folder', 'News'])),
    )

    expect(results.map(({ code }) => code)).toEqual([0, 0, 0, 0])
    expect(complaints(await records())).toEqual([])
    expect((await clear('news'))!.children).toHaveLength(5)
  })
})

import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ClearRecord } from '../../src/client/crypto.ts'
import { accountOf } from '../support/records.ts'
import { runWith } from '../cli/data/world.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { firefoxPath } from './firefox.ts'
import {
  among,
  byId,
  exceptRoots,
  inMilliseconds,
  loginOf,
  newId,
  sortVisits,
  typed,
  urlsOf,
  type Item,
} from './records.ts'
import { openLocal, startWorld, type SealedRecord, type World } from './world.ts'

const docs = join(import.meta.dir, '../../docs')
/** The recipe for the values, and the one for unattended programs. */
const recipes = Array.from(
  readFileSync(join(docs, 'connect.md'), 'utf8').matchAll(/^```js\n([^]*?)^```$/gm),
  ([, code]) => code!,
)
const missing = ' (NOT RUN: there is no Firefox; "make test-tools" installs firefox-esr)'

const printedNames = [
  'BUCKET',
  'KEY_ID',
  'BEARER_TOKEN',
  'SYNC_KEY',
  'REFRESH_TOKEN',
  'TOKEN_ENDPOINT',
  'CLIENT_ID',
  'TOKEN_SERVER_URL',
]

describe.skipIf(firefoxPath === null)(`a real Firefox${firefoxPath === null ? missing : ''}`, () => {
  let world: World
  let madeForms: ClearRecord[]
  beforeAll(async () => {
    world = await startWorld()
  })
  afterAll(async () => {
    await world?.[Symbol.asyncDispose]()
    endAll()
  })

  type Outcome = { printed: string | null; refused: string | null }
  const type = (program: string) => call<Outcome>('typeIntoConsole', program)
  const call = <T>(name: string, ...args: unknown[]) => world.firefox.call<T>(name, ...args)

  /** Firefox's own data, ordered by id. */
  const own = async (name: string) => byId(await call<ClearRecord[]>(name))

  /** The bookmarks that the bridge shows, without deleted ones, in Firefox's terms. */
  async function shownBookmarks(): Promise<Item[]> {
    const pulled = await world.pull('bookmarks')
    const records = pulled.filter(({ deleted }) => !deleted) as unknown as Item[]
    return records.map(({ id, type, title, bmkUri, tags, keyword, parentid, children, dateAdded }) => ({
      id,
      type,
      ...(type !== 'separator' && { title }),
      ...(type === 'bookmark' && {
        bmkUri,
        ...(tags?.length && { tags: tags.toSorted() }),
        ...(keyword && { keyword }),
      }),
      parentid,
      ...(type === 'folder' && { children }),
      dateAdded,
    })) as Item[]
  }

  /** The same as stored by Firefox. */
  async function ownBookmarks(): Promise<Item[]> {
    const items = await call<Item[]>('bookmarks')
    return byId(items).map((item) => {
      const isGiven = (name: string, value: unknown) =>
        value !== null && !(item.type === 'separator' && name === 'title')
      const given = Object.entries(item).filter(([name, value]) => isGiven(name, value))
      return Object.fromEntries(given) as unknown as Item
    })
  }

  describe('pasted into its Browser Console', () => {
    const [recipe] = recipes

    it('prints with the recipe of docs/connect.md who its user is, and the key, as often as needed', async () => {
      const outcomes = [await type(recipe!), await type(recipe!), await type(recipe!)]

      const account = { ...accountOf(world.user), BEARER_TOKEN: expect.stringMatching(/^ey/) }
      for (const { printed, refused } of outcomes) {
        const lines = printed!.split('\n').map((line) => line.split('='))
        expect([refused, Object.fromEntries(lines)]).toEqual([null, account])
      }
    })
  })

  it('keeps all bookmarks, folders, separators and tags of the sandbox', async () => {
    const made = await shownBookmarks()
    madeForms = await world.pull('forms')

    await world.sync()

    // A slow start may add the default bookmarks of a new profile after they were removed.
    expect(exceptRoots(among(made, await ownBookmarks()))).toEqual(exceptRoots(made))
    expect(exceptRoots(among(made, await shownBookmarks()))).toEqual(exceptRoots(made))
    expect(made).toHaveLength(300)
  })

  it('keeps history, passwords, form entries, preferences and the tabs of devices', async () => {
    const [history, passwords, tabs] = await Promise.all(
      ['history', 'passwords', 'tabs'].map((name) => world.pull(name)),
    )
    const device = await call<string>('localDevice')

    expect(await own('history')).toEqual(byId(history!.map(sortVisits)))
    expect(await own('passwords')).toEqual(passwords!.map(loginOf))
    // Firefox saves what was typed, with an id of its own.
    expect(typed(await own('forms'))).toEqual(typed(madeForms))
    expect(await call<number>('preference', 'browser.startup.page')).toBe(3)
    expect(await call<object>('tabsOfOthers')).toEqual(
      Object.fromEntries(
        tabs!.filter(({ id }) => id !== device).map((record) => [record.clientName, urlsOf(record)]),
      ),
    )
    expect([history!.length, passwords!.length, madeForms.length, tabs!.length]).toEqual([300, 4, 8, 4])
  })

  describe('shows through the bridge exactly what it has', () => {
    it('after uploading bookmarks, folders, separators, tags and unicode', async () => {
      const folder = await call<string>('addBookmark', 'toolbar', { type: 'folder', title: 'Über 日本 🦊' })
      const url = 'https://own.example/ä?q=%2F'
      await call('addBookmark', folder, {
        title: '«Öffnen» \u202eבְּרֵאשִׁית',
        url,
        tags: ['été', 'two words'],
      })
      await call('addBookmark', folder, { type: 'separator' })
      await call('addBookmark', 'unfiled', { title: 'the same page', url })

      await world.sync()

      const own = await ownBookmarks()
      expect(await shownBookmarks()).toEqual(own)
      const inner = own.filter(({ parentid }) => parentid === folder).map(({ type }) => type)
      expect(inner.toSorted()).toEqual(['bookmark', 'separator'])
      expect(own.filter(({ tags }) => tags?.includes('two words'))).toHaveLength(2)
    })

    it('after uploading history, passwords, form entries and tabs', async () => {
      const page = `${world.accounts.url}/page`
      await call('visit', 'https://own.example/visited?ü', 'Visited « ü »')
      await call('addPassword', 'https://own.example', 'ü "o", ,', ' =1+1""\\')
      const slashed = await call<string>('typeUntilSlash', 'own field')
      await call('openTab', page, 'A page')

      await world.sync()

      const shown = await world.pull('history')
      const visited = (await own('history')).find(({ title }) => title === 'Visited « ü »')!
      expect(sortVisits(shown.find(({ id }) => id === visited.id)!)).toEqual(visited)
      expect((await world.pull('passwords')).map(loginOf)).toEqual(await own('passwords'))
      const typed = (await own('forms')).filter(({ name }) => name === 'own field')
      expect((await world.pull('forms')).filter(({ name }) => name === 'own field')).toEqual(typed)
      expect(typed.map(({ id }) => id)).toContain(slashed)
      const device = await call<string>('localDevice')
      const { data } = await world.bucket.collection('tabs').getRecord<SealedRecord>(device)
      expect(urlsOf(await world.open('tabs', data))).toContain(page)
    })
  })

  describe('accepts what clients write', () => {
    const bookmark = (id: string, parentid: string, title: string) => {
      const about = { type: 'bookmark', title, bmkUri: `https://client.example/${id}`, tags: ['été'] }
      return { id, ...about, parentid, parentName: '', dateAdded: Date.now() - 5000 }
    }
    const folderWith = async (id: string, change: (children: string[]) => string[]) => {
      const folder = (await world.pull('bookmarks')).find((record) => record.id === id)!
      return { ...folder, children: change(folder.children as string[]) }
    }

    it('by kinto-http: a page, a password, and a bookmark with its folder', async () => {
      const { bucket, seal } = world
      const visits = [{ date: (Date.now() - 60_000) * 1000, type: 1 }]
      const site = 'https://client.example'
      const histUri = `${site}/visited`
      const login = { hostname: site, formSubmitURL: site, httpRealm: null }
      const fields = { username: 'client', password: 'sesame', usernameField: 'u', passwordField: 'p' }
      const password = { id: `{${crypto.randomUUID()}}`, ...login, ...fields }
      const page = { id: newId(), histUri, title: 'By a client', visits }
      const id = newId()
      const create = async (collection: string, clear: ClearRecord) =>
        bucket.collection(collection).createRecord(await seal(collection, clear))
      await create('history', page)
      await create('passwords', password)
      await create('bookmarks', bookmark(id, 'unfiled', 'By kinto-http'))
      const folder = await folderWith('unfiled', (children) => [...children, id])
      await bucket.collection('bookmarks').updateRecord(await seal('bookmarks', folder))

      await world.sync()

      const item = (await ownBookmarks()).find((own) => own.id === id)
      expect(item).toMatchObject({ title: 'By kinto-http', parentid: 'unfiled', tags: ['été'] })
      expect((await own('history')).find((own) => own.id === page.id)).toEqual(page)
      expect(await own('passwords')).toContainEqual(loginOf(password))
      expect(await shownBookmarks()).toEqual(await ownBookmarks())
    })

    it('by a batch: a folder in a folder, with a separator', async () => {
      const [outer, inner, line] = [newId(), newId(), newId()]
      const place = { dateAdded: Date.now() - 5000, parentName: '' }
      const folder = { type: 'folder', ...place }
      const records = [
        await folderWith('menu', (children) => [outer, ...children]),
        { ...folder, id: outer, title: 'By a batch', parentid: 'menu', children: [line, inner] },
        { id: line, type: 'separator', parentid: outer, ...place },
        { ...folder, id: inner, title: 'Inner', parentid: outer, children: [] },
      ]
      const sealed = await Promise.all(records.map((record) => world.seal('bookmarks', record)))

      const answers = await world.bucket.collection('bookmarks').batch((batch) => {
        for (const record of sealed) batch.updateRecord(record)
      })
      await world.sync()

      expect((answers as { status: number }[]).map(({ status }) => status)).toEqual([200, 200, 200, 200])
      const own = await ownBookmarks()
      const made = own.find(({ id }) => id === outer)
      expect(made).toMatchObject({ title: 'By a batch', children: [line, inner] })
      expect(own.find(({ id }) => id === 'menu')?.children?.[0]).toBe(outer)
      expect(await shownBookmarks()).toEqual(own)
    })

    it('by kinto.js: an edit and a deletion, with their folders', async () => {
      const local = openLocal(world, 'bookmarks')
      const pulled = await local.sync()
      const { data } = await local.list()
      const leaf = data.find(({ type, parentid }) => type === 'bookmark' && parentid === 'toolbar')!
      const edited = data.find(({ type, id }) => type === 'bookmark' && id !== leaf.id)!
      const folder = data.find(({ id }) => id === 'toolbar')!

      await local.update({ ...edited, title: 'By kinto.js' })
      const children = (folder.children as string[]).filter((id) => id !== leaf.id)
      await local.update({ ...folder, children })
      await local.update({ id: leaf.id, last_modified: leaf.last_modified, deleted: true })
      const pushed = await local.sync()
      await world.sync()

      expect([pulled.ok, pushed.ok, pushed.errors, pushed.conflicts]).toEqual([true, true, [], []])
      const own = await ownBookmarks()
      expect(own.find(({ id }) => id === edited.id)?.title).toBe('By kinto.js')
      expect(own.find(({ id }) => id === leaf.id)).toBeUndefined()
      expect(own.find(({ id }) => id === 'toolbar')?.children).toEqual(children)
    })
  })

  describe('works with the commands, which only need the executable:', () => {
    let account: string
    const command = (...words: string[]) => runWith(account, words)

    it('prints the values that connect them', async () => {
      const { printed } = await type(recipes[1]!)
      account = join(makeFolder(), 'account.env')

      const { errors, code } = await runWith(account, ['connect'], printed!)

      const count = (await ownBookmarks()).filter((item) => item.type === 'bookmark').length
      expect(errors).toContain(`Found ${count} bookmarks`)
      expect(code).toBe(0)
      expect(readFileSync(account, 'utf8')).toContain("\nTOKEN_SERVER_URL='http://127.0.0.1:")
    })

    it('gets a deleted folder back, in its place and order, and keeps newer tags', async () => {
      const folder = makeFolder()
      const again = { url: 'https://two.example/', tags: ['newer'] }
      const inner = await call<string>('addBookmark', 'toolbar', { type: 'folder', title: 'Lost and found' })
      for (const name of ['one', 'two', 'three'])
        await call('addBookmark', inner, { title: name, url: `https://${name}.example/`, tags: ['kept'] })
      await call('addBookmark', 'toolbar', { title: 'behind', url: 'https://behind.example/' })
      await world.sync()
      const before = await ownBookmarks()

      const saved = await command('backup', folder)
      await call('removeBookmark', inner)
      await call('addBookmark', 'toolbar', { title: 'later', ...again })
      await world.sync()
      const between = await ownBookmarks()
      const restored = await command('restore', folder, '--write')
      await world.sync()

      const after = await ownBookmarks()
      const later = between.find(({ title }) => title === 'later')!
      const toolbarBefore = before.find(({ id }) => id === 'toolbar')!.children!
      expect([saved.code, restored.code]).toEqual([0, 0])
      expect(between.map(({ id }) => id)).not.toContain(inner)
      expect(after.find(({ id }) => id === inner)).toEqual(before.find(({ id }) => id === inner))
      expect(after.find(({ id }) => id === 'toolbar')!.children).toEqual([...toolbarBefore, later.id])
      expect(byId(after.filter(({ parentid }) => parentid === inner))).toEqual(
        byId(
          before
            .filter(({ parentid }) => parentid === inner)
            .map((item) => (item.bmkUri === again.url ? { ...item, tags: again.tags } : item)),
        ),
      )
      expect(after).toContainEqual(later)
      expect(await shownBookmarks()).toEqual(after)
    })

    it('gets the title of a backup with --overwrite, after a preview that names it and writes nothing', async () => {
      const folder = makeFolder()
      const id = await call<string>('addBookmark', 'menu', { title: 'Then', url: 'https://then.example/' })
      await world.sync()
      await command('backup', folder)
      await call('renameBookmark', id, 'Now')
      await world.sync()
      const titleOf = async () => (await ownBookmarks()).find((item) => item.id === id)!.title

      const shown = await command('restore', folder, 'bookmarks', '--id', id, '--overwrite')
      await world.sync()
      const before = await titleOf()
      const restored = await command('restore', folder, 'bookmarks', '--id', id, '--overwrite', '--write')
      await world.sync()
      const again = await command('restore', folder, 'bookmarks', '--id', id, '--overwrite')

      expect(shown.output).toContain('title "Now" → "Then"')
      expect([before, await titleOf()]).toEqual(['Now', 'Then'])
      expect(again.errors).toContain('bookmarks: 0 to write')
      expect([shown, restored, again].map(({ code }) => code)).toEqual([0, 0, 0])
    })

    it('restores the bookmarks of firefox-json, each in its place with everything that it has', async () => {
      const path = join(makeFolder(), 'bookmarks.json')
      // Firefox sets the times of the root folders itself.
      const all = async () => exceptRoots(byId(await ownBookmarks()))
      const before = await all()
      const { code } = await command('export', 'bookmarks', '--format', 'firefox-json', '--output', path)

      const count = await call<number>('restoreBookmarks', path)

      expect(code).toBe(0)
      expect(count).toBe(before.filter(({ type }) => type === 'bookmark').length)
      expect(await all()).toEqual(before)
      await world.sync()
    })

    it('imports the contents of the menu into the menu, as often as they are exported', async () => {
      const path = join(makeFolder(), 'bookmarks.html')
      const menu = async () => {
        const items = await ownBookmarks()
        const titles = new Map(items.map(({ id, title }) => [id, title]))
        return items.find(({ id }) => id === 'menu')!.children!.map((id) => titles.get(id))
      }
      const others = ['Bookmarks Toolbar', 'Other Bookmarks', 'Mobile Bookmarks']
      const before = await menu()
      for (let round = 1; round <= 2; round += 1) {
        expect((await command('export', 'bookmarks', '--output', path)).code).toBe(0)
        await call('importBookmarks', path)
        await world.sync()
      }

      // Firefox imports the other root folders as folders of the menu, from its own files, too.
      expect((await menu()).filter((title) => !others.includes(title!))).toEqual(before)
    })

    it('imports the exported bookmarks and passwords', async () => {
      const folder = makeFolder()
      const [html, csv] = [join(folder, 'bookmarks.html'), join(folder, 'passwords.csv')]
      const links = async () =>
        (await ownBookmarks())
          .filter((item) => item.type === 'bookmark')
          .map(({ title, bmkUri, tags }) => `${title} ${bmkUri} ${tags?.join()}`)
          .toSorted()
      const [before, logins] = [await links(), await own('passwords')]
      const codes = [
        (await command('export', 'bookmarks', '--output', html)).code,
        (await command('export', 'passwords', '--output', csv)).code,
      ]

      await call('importBookmarks', html)
      const results = await call<string[]>('importPasswords', csv)
      await world.sync()

      expect(codes).toEqual([0, 0])
      expect(await links()).toEqual(before)
      expect(new Set(results)).toEqual(new Set(['added']))
      expect(await own('passwords')).toEqual(logins)
    })
  })

  it('is backed up by the unattended service, loses everything, and is restored', async () => {
    const { accounts, sync } = world
    const folder = makeFolder()
    const file = join(folder, 'account.env')
    const command = (...words: string[]) => runWith(file, words)
    const backups = join(folder, 'backups')
    const renewals = () => accounts.requests.filter((asked) => asked === 'POST /v1/oauth/token').length
    const everything = async () => ({
      bookmarks: exceptRoots(await ownBookmarks()),
      passwords: await own('passwords'),
      history: (await own('history')).map(inMilliseconds),
      forms: typed(await own('forms')),
    })

    accounts.lifeSeconds = -3600
    const typings = [await type(recipes[1]!), await type(recipes[1]!), await type(recipes[1]!)]
    accounts.lifeSeconds = null
    const printed = typings.map((outcome) => outcome.printed!)
    writeFileSync(file, `${printed[2]}\n`, { mode: 0o600 })
    const before = renewals()
    const first = await command('backup', backups)
    const kept = readFileSync(file, 'utf8')
    const renamed = (await ownBookmarks()).find((item) => item.type === 'bookmark')!.id
    await call('renameBookmark', renamed, 'Changed in between')
    await sync()
    const second = await command('backup', backups)
    const after = renewals()
    const whole = await everything()
    const titles = await Promise.all(
      readdirSync(backups)
        .toSorted()
        .map((name) => titleIn(join(backups, name), renamed)),
    )
    await call('loseEverything')
    // Firefox uploads its tabs at any time, possibly during this sync.
    await sync().catch(sync)
    const emptied = await everything()
    const restored = await command('restore', backups, '--write')
    await sync()

    for (const lines of printed)
      expect(lines.split('\n').map((line) => line.split('=')[0])).toEqual(printedNames)
    expect([first.code, second.code]).toEqual([0, 0])
    expect(after - before).toBe(1)
    expect(kept).not.toContain(/^BEARER_TOKEN=.*$/m.exec(printed[2]!)![0])
    expect(titles).toEqual([expect.not.stringContaining('Changed'), 'Changed in between'])
    expect([emptied.passwords, emptied.history, emptied.forms]).toEqual([[], [], []])
    expect(emptied.bookmarks.map(({ id }) => id)).toEqual(['menu', 'mobile', 'toolbar', 'unfiled'])
    expect(restored.code).toBe(0)
    expect(await everything()).toEqual(whole)
    expect(exceptRoots(await shownBookmarks())).toEqual(whole.bookmarks)
  })

  /** The title of a bookmark in a backup. */
  async function titleIn(backup: string, id: string): Promise<unknown> {
    const records = readFileSync(join(backup, 'bookmarks.jsonl'), 'utf8').trimEnd().split('\n')
    const record = records.map((line) => JSON.parse(line) as SealedRecord).find((each) => each.id === id)!
    return (await world.open('bookmarks', record)).title
  }
})

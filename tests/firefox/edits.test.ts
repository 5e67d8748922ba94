import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { dirname, join } from 'node:path'
import type { SyncRecord } from '../../src/client/collection.ts'
import type { Edit } from '../../src/client/edit/edit.ts'
import { below, readTree, type Tree } from '../../src/client/edit/tree.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import { complaints } from '../client/edit/trees.ts'
import { accountOf, linesOf } from '../support/records.ts'
import { addCollector, clientOf, outlineOf } from '../browser/collector.ts'
import { runWith } from '../cli/data/world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { explorerPage, key } from './explorer-page.ts'
import { firefoxPath } from './firefox.ts'
import { newId, type Item } from './records.ts'
import { startWorld, type World } from './world.ts'

const missing = ' (NOT RUN: there is no Firefox; "make test-tools" installs firefox-esr)'
const rounds = Number(process.env.FIREFOX_EDITS ?? 6)

describe.skipIf(firefoxPath === null)(
  `a real Firefox and edits${firefoxPath === null ? missing : ''}`,
  () => {
    let world: World
    let client: SyncClient
    let account: string
    beforeAll(async () => {
      world = await startWorld()
      await world.sync()
      const values = { ...accountOf(world.user), BRIDGE_URL: world.bridgeUrl }
      account = join(makeFolder({ 'account.env': linesOf(values) }), 'account.env')
      const { user } = world
      client = new SyncClient({
        bridgeUrl: world.bridgeUrl,
        token: user.bearerToken(),
        keyId: user.keyId,
        syncKey: user.syncKey.toString('hex'),
      })
      await client.edit([
        { op: 'add', id: 'folderAAAAAA', kind: 'folder', title: 'A', folder: 'menu' },
        { op: 'add', id: 'folderBBBBBB', kind: 'folder', title: 'B', folder: 'toolbar' },
        ...['one', 'two', 'six', 'ten'].map((name): Edit => ({
          op: 'add',
          id: `link${name}AAAAA`,
          address: `https://${name}.example/`,
          title: name,
          tags: ['kept'],
          folder: 'folderAAAAAA',
        })),
        {
          op: 'add',
          id: 'twiceAAAAAAA',
          address: 'https://one.example/',
          title: 'twice',
          folder: 'folderBBBBBB',
        },
      ])
      await world.sync()
    })
    afterAll(async () => {
      await world?.[Symbol.asyncDispose]()
      endAll()
    })

    const call = <T>(name: string, ...args: unknown[]) => world.firefox.call<T>(name, ...args)

    /** What Firefox shows, as lines. */
    async function own(): Promise<string> {
      const items = new Map((await call<Item[]>('bookmarks')).map((item) => [item.id, item]))
      const lines: string[] = []
      const visit = (id: string, indent: string) => {
        const { type, title, bmkUri, tags, keyword, children } = items.get(id)!
        lines.push(indent + lineOf(id, type, title, bmkUri, tags, keyword))
        for (const child of children ?? []) visit(child, `${indent}  `)
      }
      for (const root of ['menu', 'toolbar', 'unfiled', 'mobile']) visit(root, '')
      return lines.join('\n')
    }

    /** The same of what is stored. */
    function shown(tree: Tree): string {
      const depths = new Map<string, number>()
      return ['menu', 'toolbar', 'unfiled', 'mobile']
        .flatMap((root) => [tree.items.get(root)!, ...below(tree, root)])
        .map((item) => {
          const depth = (depths.get(item.parent) ?? -1) + 1
          depths.set(item.id, depth)
          const { id, kind, title, address, tags, keyword } = item
          return (
            '  '.repeat(depth) +
            lineOf(id, kind === 'query' ? 'bookmark' : kind, title, address, tags, keyword)
          )
        })
        .join('\n')
    }

    function lineOf(
      id: string,
      type: string,
      title?: string | null,
      url?: string | null,
      tags?: readonly string[] | null,
      keyword?: string | null,
    ) {
      const isRoot = ['menu', 'toolbar', 'unfiled', 'mobile'].includes(id)
      const name = isRoot || type === 'separator' ? '' : (title ?? '')
      return [id, type, name, url ?? '', (tags ?? []).toSorted().join(), keyword ?? ''].join('|')
    }

    /** Whether both sides have the same, and Firefox's rules hold. */
    async function expectAgreement(): Promise<string> {
      const records: SyncRecord[] = []
      for await (const record of client.collection('bookmarks').records()) records.push(record)
      expect(complaints(records)).toEqual([])
      const tree = shown(readTree(records))
      expect(await own()).toBe(tree)
      return tree
    }

    const edits: [string, Edit[], RegExp][] = [
      ['rename', [{ op: 'change', id: 'linkoneAAAAA', fields: { title: 'Über 日本 🦊' } }], /Über 日本 🦊/],
      [
        'retag',
        [{ op: 'change', id: 'linkoneAAAAA', fields: { tags: ['x', 'two words'] } }],
        /twice\|\S+\|two words,x/,
      ],
      ['untag', [{ op: 'change', id: 'linkoneAAAAA', fields: { tags: [] } }], /twice\|https:\S+\|\|/],
      [
        'give a keyword',
        [{ op: 'change', id: 'linktwoAAAAA', fields: { keyword: 'kw' } }],
        /two\|\S+\|[^|]*\|kw/,
      ],
      [
        'change an address that another bookmark has, too',
        [{ op: 'change', id: 'linkoneAAAAA', fields: { address: 'https://other.example/' } }],
        /twice\|https:\/\/one.example\/\|kept/,
      ],
      [
        'move between folders',
        [{ op: 'move', id: 'linkoneAAAAA', folder: 'folderBBBBBB', after: null }],
        /folderBBBBBB.*\n +linkone/,
      ],
      [
        'move within a folder',
        [{ op: 'move', id: 'linktenAAAAA', folder: 'folderAAAAAA', after: null }],
        /folderAAAAAA.*\n +linkten/,
      ],
      [
        'move a folder',
        [{ op: 'move', id: 'folderAAAAAA', folder: 'folderBBBBBB', after: 'twiceAAAAAAA' }],
        /twice.*\n +folderA/,
      ],
      [
        'add folders with contents',
        [
          { op: 'add', id: 'newfolderAAA', kind: 'folder', title: 'New', folder: 'unfiled' },
          { op: 'add', id: 'newinnerAAAA', kind: 'folder', title: 'Inner', folder: 'newfolderAAA' },
          {
            op: 'add',
            id: 'newlinkAAAAA',
            address: 'https://one.example',
            title: 'new',
            folder: 'newinnerAAAA',
          },
          { op: 'add', id: 'newlineAAAAA', kind: 'separator', folder: 'newfolderAAA' },
        ],
        /newlinkAAAAA\|bookmark\|new\|https:\/\/one.example\/\|kept/,
      ],
      [
        'add a bookmark with a new tag',
        [{ op: 'add', id: 'newtagAAAAAA', address: 'https://two.example', tags: ['new'], folder: 'unfiled' }],
        /newtagAAAAAA\|bookmark\|\|\S+\|[^|]*kept[^|]*new/,
      ],
      [
        'delete a bookmark whose address another one has',
        [{ op: 'remove', id: 'linkoneAAAAA' }],
        /twice\|\S+\|kept/,
      ],
      ['delete a tree', [{ op: 'remove', id: 'folderAAAAAA' }], /^(?![^]*linkten)/],
    ]

    it('takes back in parts what does not fit into one transaction, while Firefox syncs between the parts', async () => {
      const small = new SyncClient(client.account, {
        async fetch(url, init) {
          const response = await fetch(url, init)
          if (!url.endsWith('/v1/')) return response
          const { settings, ...body } = (await response.json()) as { settings: object }
          return Response.json({ ...body, settings: { ...settings, batch_max_requests: 12 } })
        },
      })
      const before = await expectAgreement()
      const names = Array.from({ length: 20 }, (_, index) => String(index).padStart(2, '0'))
      const added = await client.edit([
        { op: 'add', id: 'manyAAAAAAAA', kind: 'folder', title: 'Many', folder: 'menu' },
        { op: 'add', id: 'innerAAAAAAA', kind: 'folder', title: 'Inner', folder: 'manyAAAAAAAA' },
        ...names.flatMap((name): Edit[] =>
          ['manyAAAAAAAA', 'innerAAAAAAA'].map((folder) => ({
            op: 'add',
            id: `${folder.slice(0, 5)}${name}AAAAA`,
            address: `https://${folder}${name}.example/`,
            folder,
          })),
        ),
      ])
      await world.sync()
      const between = await expectAgreement()
      const seen: string[] = []

      await small.undo(added.saved!, {
        async onWrite() {
          await world.sync()
          seen.push(await expectAgreement())
        },
      })
      await world.sync()

      expect(between.split('\n')).toHaveLength(before.split('\n').length + 42)
      expect(new Set(seen).size).toBeGreaterThan(3)
      expect(await expectAgreement()).toBe(before)
    })

    it.each(edits)('shows what they %s, and what it was after undo', async (_, made, pattern) => {
      const before = await expectAgreement()

      const { problems, saved } = await client.edit(made)
      const wanted = shown(await client.tree())
      await world.sync()
      const after = await expectAgreement()
      const undone = await client.undo(saved!)
      await world.sync()

      expect([problems, undone.problems]).toEqual([[], []])
      expect(after).toBe(wanted)
      expect(pattern.test(after)).toBe(true)
      expect(await expectAgreement()).toBe(before)
    })

    // One edit of each kind that another writer's change is merged with.
    const raced = /^(retag|change an address|move between|move a folder|add folders|delete a tree)/
    it.each(edits.filter(([name]) => raced.test(name)))(
      'keeps what it changes while they %s',
      async (_, made, pattern) => {
        const name = newId()
        let isFirst = true
        const racing = new SyncClient(client.account, {
          async fetch(address, init) {
            if (address.endsWith('/batch') && isFirst) {
              isFirst = false
              await call('addBookmark', 'folderAAAAAA', {
                title: name,
                url: `https://${name.toLowerCase()}.example/`,
              })
              await call('renameBookmark', 'linksixAAAAA', name)
              await call('tagAddress', 'https://two.example/', ['kept', name])
              await call('moveBookmark', 'twiceAAAAAAA', 'menu')
              await world.sync()
            }
            return fetch(address, init)
          },
        })
        const before = await client.tree()

        const { problems, saved } = await racing.edit(made)
        const wanted = shown(await client.tree())
        await world.sync()

        const after = await expectAgreement()
        expect(after).toBe(wanted)
        // Once as a title and a tag that it has changed, once as a bookmark that it has added.
        expect(after.split(name).length).toBeGreaterThanOrEqual(4)
        if (problems.length === 0 && !/twice/.test(pattern.source)) expect(pattern.test(after)).toBe(true)
        await client.undo(saved!)
        await world.sync()
        const undone = await expectAgreement()
        expect(undone.split(name).length).toBeGreaterThanOrEqual(4)
        for (const id of before.items.keys()) expect(undone).toContain(id)
        await client.edit([
          { op: 'change', id: 'linksixAAAAA', fields: { title: 'six' } },
          { op: 'change', id: 'linktwoAAAAA', fields: { tags: ['kept'] } },
          { op: 'move', id: 'twiceAAAAAAA', folder: 'folderBBBBBB', after: null },
        ])
        await world.sync()
      },
    )

    // Keys, focus and dialogs are the browser's own.
    it('renames, moves, deletes and takes back with the keyboard in the explorer, and adds with its forms', async () => {
      await using bridge = await startTestBridge({
        writable: ['bookmarks'],
        settings: { explorer_enabled: 'true' },
      })
      const other = clientOf(addCollector(bridge.sandbox, 'fox'), bridge.url)
      const { marionette } = world.firefox
      const { until, click, press, fill, row, saved } = explorerPage(marionette)
      await marionette.send('Marionette:SetContext', { value: 'content' })
      await marionette.send('WebDriver:Navigate', { url: `${bridge.url}/v1/explore` })
      const { token, keyId, bucket, syncKey } = other.account
      await marionette.run(
        `for (const [name, value] of Object.entries(args[0]))
          document.querySelector('input[name=' + name + ']').value = value`,
        { token, keyId, bucket, syncKey },
      )
      await click("//button[@id='open']")
      await until("!document.querySelector('#edit-tools').hidden")

      await click(`${row('Mail')}//input`)
      await click(`${row('Mail again')}//input`)
      await press('x', key.control)
      await click(row('News'))
      await press('v', key.control)
      await saved('Moved 2 bookmarks')
      await until(`document.activeElement.textContent.includes('News')`)
      await press(key.f2)
      await until(`document.activeElement.name === 'title'`)
      await press('a', key.control)
      await press(`Reading${key.enter}`)
      await saved('Changed “News”')
      await until(`document.activeElement.textContent.includes('Reading')`)
      const changed = await outlineOf(other)
      await press(key.delete)
      await saved('Deleted “Reading”')
      const deleted = await outlineOf(other)
      await press('z', key.control)
      await until(`document.querySelector('#changes').hidden`)
      await click("//button[@id='new-bookmark']")
      await fill('title', 'Noon')
      await fill('address', 'https://noon.example/')
      await press(key.enter)
      await saved('Added a bookmark')
      await until(`document.activeElement.textContent.includes('Noon')`)
      await click("//button[@id='move']")
      await press(`other${key.enter}`)
      await saved('Moved “Noon”')
      await marionette.send('Marionette:SetContext', { value: 'chrome' })

      const inside = ['Morning', 'Evening', 'Mail', 'Mail again'].map((title) => `Reading/${title}`)
      expect(changed).toEqual(['Reading', ...inside, '---'])
      expect(deleted).toEqual(['---'])
      expect(await outlineOf(other)).toEqual(changed)
      expect(await outlineOf(other, 'unfiled')).toEqual(['Stray', 'Noon'])
    }, 240_000)

    it('shows what somebody edits in the shell', async () => {
      const before = await expectAgreement()
      const script =
        's,^\\( *\\)ten <.*,\\1Shell <https://shell.example> #sh\\n&,;/ six </d;s/ twice / Twice /'
      const run = (words: string[], more = {}) =>
        runWith(account, words, undefined, { XDG_STATE_HOME: dirname(account), ...more })

      const { errors, code } = await run(['edit', '--yes'], { EDITOR: `sed -i '${script}'` })
      await world.sync()
      const after = await expectAgreement()
      const undone = await run(['undo', '--write'])
      await world.sync()

      expect(errors).toContain('1 bookmark added, 1 renamed, 1 deleted\n')
      expect([code, undone.code]).toEqual([0, 0])
      expect(after).toMatch(/Shell\|https:\/\/shell.example\/\|sh\|\n +linkten/)
      expect(await expectAgreement()).toBe(before)
    })

    it('agrees after each of many random edits, beside its own', async () => {
      const draw = (below: number) => Math.floor(Math.random() * below)
      for (let round = 0; round < rounds; round += 1) {
        const tree = await client.tree()
        const made = randomEdits(tree, draw)
        if (round % 3 === 0) {
          const own = [...tree.items.values()].filter(
            ({ kind, parent }) => kind === 'bookmark' && parent !== '',
          )
          const { id } = own[draw(own.length)]!
          await call('renameBookmark', id, `Firefox ${round}`)
          await world.sync()
        }
        await client.edit(made)
        const wanted = shown(await client.tree())
        await world.sync()
        expect(await expectAgreement()).toBe(wanted)
      }
    }, 120_000)

    function randomEdits(tree: Tree, draw: (below: number) => number): Edit[] {
      const items = [...tree.items.values()].filter(({ parent }) => parent !== 'places')
      const folders = [...tree.items.values()].filter(({ kind }) => kind === 'folder')
      return Array.from({ length: 1 + draw(8) }, (): Edit => {
        const { id, kind } = items[draw(items.length)]!
        const { id: folder, children } = folders[draw(folders.length)]!
        const after = children[draw(children.length)] ?? null
        const kinds = draw(6)
        if (kinds === 0)
          return {
            op: 'add',
            id: newId(),
            address: `https://${draw(9)}.example/`,
            tags: [`t${draw(3)}`],
            folder,
            after,
          }
        if (kinds === 1)
          return { op: 'add', id: newId(), kind: 'folder', title: `F${draw(99)}`, folder, after }
        if (kinds === 2 && kind !== 'folder') return { op: 'remove', id }
        if (kinds === 3 && kind === 'bookmark') return { op: 'change', id, fields: { tags: [`t${draw(4)}`] } }
        if (kinds === 4 && kind === 'bookmark')
          return { op: 'change', id, fields: { address: `https://${draw(9)}.example/` } }
        return kind === 'folder'
          ? { op: 'change', id, fields: { title: `R${draw(99)}` } }
          : { op: 'move', id, folder, after }
      })
    }
  },
)

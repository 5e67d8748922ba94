import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  bookmarkTree,
  checkAccount,
  connect,
  describeRecord,
  deviceTabs,
  exportFormats,
  faultOf,
  folderCalled,
  folderNamed,
  formatAccount,
  isReadable,
  isUsable,
  nameRecord,
  parseAccount,
  readVisitedPage,
  walk,
  type ClearRecord,
  type ReadableRecord,
  type SyncClient,
  type SyncRecord,
} from '../../src/client/index.ts'
import { applyEdits } from '../../src/client/edit/apply-edits.ts'
import type { Edit } from '../../src/client/edit/edit.ts'
import { requestsOf } from '../../src/client/edit/edit-requests.ts'
import { editsBetween } from '../../src/client/edit/edits-between.ts'
import { readTree } from '../../src/client/edit/tree.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { accountOf, foreign, linesOf } from '../support/records.ts'
import { clear, damaged, sealed } from '../client/damaged.ts'
import { accountAt, accountsOf, all, replaceKeys, upload } from '../client/world.ts'
import type { Accounts } from '../firefox/accounts.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../support/fault-proxy.ts'
import { linesIn, runProgram, runToEnd } from '../support/processes.ts'
import { Chance } from '../fuzz/chance.ts'
import { oddValues } from '../client/odd.ts'
import { hostileAccount, HostileBridge } from '../fuzz/hostile-answers.ts'
import { changed, randomForest, recordsOf } from '../client/edit/trees.ts'
import { findPython, installInto } from './python.ts'

const root = join(import.meta.dir, '../..')
const source = join(root, 'clients/python')
const scenes = join(import.meta.dir, 'python_package_scenes.py')
const page = readFileSync(join(source, 'README.md'), 'utf8')

// The build tools are cached for the next run; the package under test is installed anew.
const constraints = join(source, 'constraints.txt')
const building = 'hatchling mypy packaging pathspec pluggy tomlkit trove-classifiers typing_extensions'.split(
  ' ',
)
const pinned = readFileSync(constraints, 'utf8').split('\n')
const tools = await findPython(...pinned.filter((line) => building.includes(line.split('==')[0]!)))
const why = 'reason' in tools ? ` (NOT RUN: ${tools.reason})` : ''
const itWithPython = it.skipIf('reason' in tools)
const builder = 'path' in tools ? tools.path : ''

let bridge: TestBridge
let proxy: FaultProxy
let accounts: Accounts
/** A new virtual environment with the wheel. */
let environment: string
let wheel: string

if (!('reason' in tools)) {
  beforeAll(async () => {
    const settings = { record_bookmarks_put_enabled: 'true', record_passwords_put_enabled: 'true' }
    bridge = await startTestBridge({ settings })
    fillSampleData(bridge.sandbox, bridge.user, {
      bookmarks: 60,
      history: 40,
      unreadable: ['bookmarks', 'history'],
    })
    proxy = await startFaultProxy({ target: bridge.url })
    accounts = accountsOf(bridge.user)
    const folder = makeFolder()
    environment = join(folder, 'environment')
    wheel = await buildWheel(join(folder, 'wheels'))
    await installInto(environment, '--constraint', constraints, wheel)
  }, 180_000)
  afterAll(async () => {
    scenery?.stop()
    await Promise.all([proxy.stop(), bridge.stop(), accounts.stop()])
    endAll()
  })
}

async function buildWheel(folder: string): Promise<string> {
  const program = join(root, '.ci/python-client.ts')
  await inherited([process.execPath, program, folder, builder])
  const [name] = readdirSync(folder)
  return join(folder, name!)
}

/** Runs a program in this environment, which configures where packages come from. */
const inherited = (command: [string, ...string[]], cwd = root) =>
  runProgram(command, { cwd, environment: process.env as Record<string, string> })

interface Play {
  arguments?: string[]
  input?: string
  environment?: Record<string, string>
}

/** The environment variables of a program. */
function told(file: string, more: Record<string, string> = {}): Record<string, string> {
  return { SCENE_BRIDGE: proxy.url, SYNC_BRIDGE_ACCOUNT: file, ...more }
}

/** A user's account in a file, with additional settings. */
function fileOf(user: SandboxUser, more: Record<string, string> = {}): string {
  return join(makeFolder({ 'account.env': linesOf({ ...accountOf(user), ...more }) }), 'account.env')
}

/** A process that runs one scene after the other; null before the first. */
let scenery: { say(line: string): void; lines: AsyncGenerator<string>; stop(): void } | null = null

function startScenery() {
  const child = Bun.spawn([join(environment, 'bin/python'), scenes, 'serve'], {
    env: { PATH: '/usr/bin:/bin' },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  return {
    say: (line: string) => void child.stdin.write(`${line}\n`),
    lines: linesIn(child.stdout),
    stop: () => child.kill(),
  }
}

/** The result of a scene, and its other output. */
function play(scene: string, file: string, options: Play = {}) {
  return playIn(told(file, options.environment), scene, options)
}

/** The same with no other variables in the environment. */
async function playIn(environment: Record<string, string>, scene: string, options: Play = {}) {
  scenery ??= startScenery()
  const { arguments: words = [], input = '' } = options
  scenery.say(JSON.stringify({ scene, arguments: words, input, environment }))
  const { value, done } = await scenery.lines.next()
  if (done) throw new Error(`The scene "${scene}" has failed`)
  return JSON.parse(value)
}

/** The other output of a scene in a process of its own. */
async function playAlone(scene: string, file: string): Promise<string> {
  const command = [join(environment, 'bin/python'), scenes, scene]
  const { output, errors, code } = await runToEnd(command, { environment: told(file) })
  if (code !== 0) throw new Error(`The scene "${scene}" ended with ${code}:\n${output}${errors}`)
  return errors
}

let people = 0

/** A user with keys, and these bookmarks in addition to the root folders. */
async function someone(...bookmarks: ClearRecord[]) {
  const user = bridge.sandbox.addUser(`person ${++people}`)
  fillSampleData(bridge.sandbox, user, { isEmpty: true })
  const store = { sandbox: bridge.sandbox, user }
  const write = (...records: ClearRecord[]) => upload(store, 'bookmarks', ...records)
  for (const bookmark of [{ id: 'menu', type: 'folder', children: [] }, ...bookmarks]) await write(bookmark)
  return { user, store, file: fileOf(user), write, client: () => connect(accountAt(bridge, user)) }
}

/** Faults for the first requests whose path ends like this; later ones pass. Returns how many there were. */
function planFor(path: string, ...faults: Fault[]): () => number {
  let asked = 0
  proxy.plan((request) => (request.path.endsWith(path) ? (faults[asked++] ?? null) : null))
  return () => asked
}

/** Three states of the bookmarks of an account, and further edits: of a valid tree and its changes, or of odd records. */
function editCase(chance: Chance): Record<'shown' | 'now' | 'wanted', SyncRecord[]> & { edits: Edit[] } {
  if (chance.isTrue(0.7)) {
    const draw = (below: number) => chance.below(below)
    const forest = randomForest(draw)
    const now = recordsOf(changed(forest, draw, 'o'), 2000)
    const wanted = changed(forest, draw, 'n')
    // Perhaps that of another address.
    if (chance.isTrue(0.3)) chance.of([...wanted.shared.values()]).keyword = `key${chance.below(5)}`
    return { shown: recordsOf(forest), now, wanted: recordsOf(wanted), edits: [] }
  }
  const odd = (): SyncRecord[] =>
    randomRecords(chance).bookmarks!.map((clear, index) => {
      const stored = { id: clear.id, last_modified: 1000 + index }
      if (chance.isTrue(0.05))
        return { collection: 'bookmarks', stored, clear: null, problem: 'It is damaged' }
      const content = chance.isTrue(0.05) ? { id: clear.id, deleted: true } : { ...clear, id: stored.id }
      return { collection: 'bookmarks', stored, clear: content, problem: null }
    })
  const shown = odd()
  const id = () => chance.of(shown).stored.id
  const edits = chance.some(6, (): Edit => {
    const op = chance.of(['add', 'change', 'move', 'remove'] as const)
    if (op === 'add')
      return {
        op,
        id: `new${chance.below(9)}`,
        address: 'HTTPS://B.example\n',
        title: 'New',
        folder: id(),
        tags: [' T', 't'],
      }
    if (op === 'move') return { op, id: id(), folder: id(), after: chance.of([null, id()]), before: id() }
    if (op === 'change') return { op, id: id(), fields: { title: 'Changed', tags: ['One', 'one '] } }
    return { op, id: id() }
  })
  return { shown, now: chance.isTrue(0.5) ? shown : odd(), wanted: shown, edits }
}

/** A value as JSON has it, without unpaired surrogates, which Python replaces, and messages in JavaScript escape. */
function wellFormed(value: unknown): unknown {
  const fix = (_: string, each: unknown) =>
    typeof each === 'string' ? each.toWellFormed().replaceAll(/\\ud[89a-f][\da-f]{2}/g, '\ufffd') : each
  return JSON.parse(JSON.stringify(value), fix)
}

/** An edit with the names and defaults of Python. */
function inPython(edit: Edit): object {
  const record = edit.op === 'remove' ? null : (edit.record ?? null)
  if (edit.op === 'change') return { op: edit.op, id: edit.id, fields: edit.fields, record }
  if (edit.op === 'remove') return { op: edit.op, id: edit.id, shown: edit.shown ?? null }
  const { after = '', before = '' } = edit
  if (edit.op === 'move')
    return { op: edit.op, id: edit.id, folder: edit.folder, after, before: before ?? '', record }
  const { kind = 'bookmark', address = '', title = '', tags = [], keyword = '', folder = 'unfiled' } = edit
  const more = { added_ms: edit.addedMs ?? null, record }
  return {
    op: edit.op,
    id: edit.id,
    kind,
    address,
    title,
    tags,
    keyword,
    folder,
    after,
    before: before ?? '',
    ...more,
  }
}

/** What is found, or the message of the error. */
function orMessage(find: () => string): string {
  try {
    return find()
  } catch (error) {
    return (error as Error).message
  }
}

/** Records of each collection, some with odd values, nasty texts and unusual places. */
function randomRecords(chance: Chance): Record<string, ClearRecord[]> {
  const texts = [
    'plain',
    '',
    '=1+1',
    '-x',
    '＝1',
    'a "quoted", text',
    '<b>&amp;"',
    '*_`[x](y)`',
    '![i](https://x/)',
    '#~|',
    'red \u001b[31m',
    'C1 \u009b2J',
    'turned \u202e \u2066 \u200f',
    'half \ud83d',
    'two\r\nlines\tand',
    '\0',
    'Ω 日本 👍',
    'www.x.example',
    'a\u00a0b\u2028c\ufeff',
    "it's \\&lt;",
  ]
  const urls = [
    'https://a.example/?q=1&lt;',
    'https://b.example/a b<>',
    'place:sort=8',
    'javascript:"x"',
    '\thttps://c/\n',
  ]
  const text = () => chance.text(texts, 2)
  const value = (usual: unknown) => (chance.isTrue(0.08) ? chance.of(oddValues) : usual)
  const moment = () =>
    chance.of([
      0,
      1,
      1_500_000_000_123,
      1_500_000_000_123_456,
      1e300,
      '1500000000000',
      253_402_300_800_000,
      -1,
    ])
  const ids = Array.from({ length: 60 }, (_, index) => `bookmark${String(index).padStart(4, '0')}`)
  const folders = ['menu', 'toolbar', 'unfiled', 'mobile', ...ids.slice(0, 15)]
  const make = (id: string, fields: Record<string, unknown>): ClearRecord => ({
    id,
    ...Object.fromEntries(Object.entries(fields).map(([name, usual]) => [name, value(usual)])),
  })
  return {
    bookmarks: [...folders.slice(0, 4), ...ids].map((id) => {
      const isFolder = folders.includes(id)
      const children = chance.some(12, () => chance.of([...ids, 'menu', 'mobile']))
      const type = isFolder ? 'folder' : chance.of(['bookmark', 'bookmark', 'separator', 'livemark', 'query'])
      // Firefox writes the id of a root as its title.
      const title = chance.isTrue(0.1) ? id : text()
      const place = { type, title, parentid: chance.of(folders), dateAdded: moment() }
      const link = {
        bmkUri: chance.of(urls),
        tags: chance.some(3, text),
        keyword: text(),
        description: text(),
      }
      const feed = type === 'livemark' ? { feedUri: chance.of(urls), siteUri: chance.of(urls) } : {}
      return make(id, { ...place, ...(isFolder ? { children } : link), ...feed })
    }),
    history: ids.slice(0, 30).map((id) =>
      make(id, {
        histUri: chance.of(urls),
        title: text(),
        visits: chance.some(4, () => value({ date: 1000 * Number(moment()), type: chance.below(11) })),
      }),
    ),
    passwords: ids.slice(0, 20).map((id) =>
      make(id, {
        hostname: chance.of(urls),
        username: text(),
        password: text(),
        timeCreated: moment(),
        httpRealm: null,
      }),
    ),
    tabs: ids.slice(0, 10).map((id) =>
      make(id, {
        clientName: text(),
        tabs: chance.some(4, () =>
          value({ title: text(), urlHistory: value([chance.of(urls)]), lastUsed: moment() }),
        ),
      }),
    ),
    forms: ids.slice(0, 10).map((id) => make(id, { name: text(), value: text() })),
    creditcards: [make('card', { entry: { 'cc-name': text() } })],
  }
}

describe('the wheel', () => {
  itWithPython(`is reproducible, and includes its types${why}`, async () => {
    const installed = join(environment, 'bin/python')
    const again = await buildWheel(makeFolder())

    const listed = await inherited([installed, '-m', 'zipfile', '--list', wheel])
    expect(readFileSync(again).equals(readFileSync(wheel))).toBe(true)
    expect(listed).toContain('sync_bridge_client/py.typed')
    expect(page).toContain(`dist/${wheel.split('/').at(-1)}\n`)
  })

  it('has a page that links to existing files', () => {
    const links = Array.from(page.matchAll(/\]\(([^)]+)\)/g), ([, target]) => join(source, target!))

    expect(links.length).toBeGreaterThan(2)
    expect(links.filter((path) => !existsSync(path))).toEqual([])
  })

  itWithPython(`passes mypy --strict, and so do programs over it${why}`, async () => {
    const program = join(makeFolder({ 'program.py': programOfThePage() }), 'program.py')
    const installed = ['--python-executable', join(environment, 'bin/python')]
    const mypy: [string, ...string[]] = [
      builder,
      '-m',
      'mypy',
      '--strict',
      '--cache-dir',
      join(environment, 'mypy'),
      ...installed,
    ]

    const checked = await inherited([...mypy, 'sync_bridge_client'], source)
    const programs = await inherited([...mypy, program, scenes])

    expect(checked).toMatch(/^Success: no issues found in \d+ source files/m)
    expect(programs).toContain('no issues found in 2 source files')
  })
})

function programOfThePage(): string {
  const [, program] = /^```python\n([^]*?)^```$/m.exec(page)!
  return program!
}

describe('the Python program in docs/clients.md', () => {
  itWithPython(`works with the account that "connect" saves, which names no bridge${why}`, async () => {
    const { file, user } = await someone({ id: 'toolbar', type: 'folder', children: [] })
    const guide = readFileSync(join(root, 'docs/clients.md'), 'utf8')
    const programs = Array.from(guide.matchAll(/^```python\n([^]*?)^```$/gm), ([, code]) => code!)
    const program = programs.find((code) => code.includes('sync_bridge_client'))!
    proxy.plan(() => null)
    const saved = readFileSync(file, 'utf8').replaceAll(/^BRIDGE_URL=.*\n/gm, '')
    const folder = makeFolder({
      'program.py': program.replace('http://127.0.0.1:8000', proxy.url),
      'account.env': saved,
    })
    const child = Bun.spawn([join(environment, 'bin/python'), '-u', join(folder, 'program.py')], {
      env: { PATH: '/usr/bin:/bin', SYNC_BRIDGE_ACCOUNT: join(folder, 'account.env') },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    const printed = new Response(child.stdout).text()
    const hasAdded = () => bridge.sandbox.records(user, 'bookmarks').length > 2

    try {
      await eventually('it has added a bookmark', () => hasAdded() || child.exitCode !== null)
    } finally {
      child.kill()
    }

    expect(await printed).toStartWith('bookmarks 2\n')
    expect(hasAdded()).toBe(true)
  })
})

describe('the program on the package page', () => {
  itWithPython(`lists, adds and watches${why}`, async () => {
    const { user, file, write, client } = await someone(
      { id: 'toolbar', type: 'folder', children: ['one'] },
      {
        id: 'one',
        type: 'bookmark',
        title: 'One \ud83d',
        bmkUri: 'https://one.example/',
        parentid: 'toolbar',
      },
    )
    const often = programOfThePage().replace('every_seconds=60', 'every_seconds=0.1')
    const program = join(makeFolder({ 'program.py': often }), 'program.py')
    const asked = () => proxy.requests.filter((request) => request.path.endsWith('/collections')).length
    proxy.plan(() => null)

    const lines = `${readFileSync(file, 'utf8')}BRIDGE_URL=${proxy.url}\n`
    const account = join(makeFolder({ 'account.env': lines }), 'account.env')
    const child = Bun.spawn([join(environment, 'bin/python'), '-u', program], {
      env: { PATH: '/usr/bin:/bin', SYNC_BRIDGE_ACCOUNT: account },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    let output = ''
    const reading = child.stdout.pipeTo(
      new WritableStream({ write: (chunk) => void (output += new TextDecoder().decode(chunk)) }),
    )
    try {
      await eventually(
        'it has added a bookmark',
        () => /Records written: 2\n/.test(output) || child.exitCode !== null,
      )
      const before = asked()
      await eventually('it watches', () => asked() > before + 1 || child.exitCode !== null)
      await write({ id: 'new', type: 'bookmark', title: 'New', parentid: 'menu' })
      await eventually('it has seen a new one', () => /'New'.*\n/.test(output) || child.exitCode !== null)
    } finally {
      child.kill()
      await reading
    }

    expect(output.split('\n').slice(0, 6)).toEqual([
      'bookmarks 3',
      'crypto 1',
      'meta 1',
      "   'Bookmarks Toolbar'",
      "     'One \\ud83d'".replace('\\ud83d', '\ufffd'),
      "   'Bookmarks Menu'",
    ])
    expect(output).toContain(
      "bookmarks new {'id': 'new', 'type': 'bookmark', 'title': 'New', 'parentid': 'menu'}\n",
    )
    const [added] = walk(
      bookmarkTree((await all((await client()).collection('bookmarks').records())).filter(isReadable)),
    ).filter(({ bookmark: { url } }) => url === 'https://example.org/')
    expect(added).toMatchObject({ title: 'Example', position: 2, path: 'Bookmarks Toolbar' })
    expect(added!.record.clear).toMatchObject({
      bmkUri: 'https://example.org/',
      tags: ['later'],
      parentid: 'toolbar',
      type: 'bookmark',
    })
    expect(bridge.sandbox.records(user, 'bookmarks')).toHaveLength(5)
  })
})

describe('records', () => {
  /** The records of each collection are the same in both languages; returns why the others can't be read. */
  async function expectSame(outcome: Record<string, unknown>, client: SyncClient) {
    const names = (await client.collections()).map(({ name }) => name)
    expect(Object.keys(outcome)).toEqual(names)
    const problems: unknown[] = []
    for (const name of names) {
      const records = await all(client.collection(name).records())
      const expected = records.map(({ stored, ...record }) => ({
        ...record,
        stored: { payload: null, sortindex: null, ...stored },
      }))
      expect(outcome[name]).toEqual(expected)
      problems.push(...records.filter(({ clear }) => clear === null).map(({ problem }) => problem))
    }
    return problems
  }

  itWithPython(`are decrypted like in JavaScript, unreadable ones with the reason${why}`, async () => {
    bridge.sandbox.write(bridge.user, 'forms', [
      { id: 'plain', payload: 'plain' },
      { id: 'foreign', payload: foreign },
    ])
    const meta = { other: '{"id":1,"a":[]}', list: '[{}]', text: '"abc"' }
    for (const [id, payload] of Object.entries(meta))
      bridge.sandbox.write(bridge.user, 'meta', [{ id, payload }])
    const client = await connect(accountAt(bridge))
    proxy.plan(() => null)

    const { outcome } = await play('everything', fileOf(bridge.user))

    const problems = await expectSame(outcome, client)
    const [plain, other, none] = [
      'It is not encrypted in the format of Firefox',
      'It was encrypted with another key, or tampered with',
      'Its content is not a record',
    ]
    expect(problems.toSorted()).toEqual([plain, other, other, other, none, none])
  })

  itWithPython(`are decrypted or skipped like in JavaScript, however they are damaged${why}`, async () => {
    const { user, store, file, client } = await someone()
    await replaceKeys(store)
    const whole = {
      plain: sealed(clear),
      'a mark at its beginning': sealed(`\ufeff${clear}`),
      'base64 in lines': sealed(clear, { IV: 'AAAAAAAAAAAA\r\nAAAAAAAAAA==\n' }),
      'a deletion by a phone': sealed('{"deleted":true}'),
    }
    for (const [index, payload] of Object.values({ ...whole, ...damaged }).entries())
      bridge.sandbox.write(user, `forms${index}`, [{ id: 'right', payload }])
    proxy.plan(() => null)

    const { outcome } = await play('everything', file)

    const problems = await expectSame(outcome, await client())
    // The folder was encrypted with the former keys.
    expect(problems).toHaveLength(Object.keys(damaged).length + 1)
  })

  itWithPython(`are complete even if one changes between two pages${why}`, async () => {
    const { file, write } = await someone(...['a', 'b', 'c', 'd'].map((id) => ({ id, title: 'old' })))
    let lists = 0
    proxy.plan(async ({ path }) => {
      if (path.endsWith('/bookmarks/records') && ++lists === 2) await write({ id: 'd', title: 'new' })
      return null
    })

    const { outcome } = await play('pages', file)

    const shown = new Map(outcome.flatMap(([, records]: [number, [string, string][]]) => records))
    expect(Object.fromEntries(shown)).toMatchObject({ a: 'old', b: 'old', c: 'old', d: 'new' })
    const moments = outcome.map(([lastModified]: [number]) => lastModified)
    expect(moments.at(-1)).toBeGreaterThan(moments[0])
  })

  itWithPython(
    `are decrypted by JavaScript if Python has written them, including unpaired surrogates${why}`,
    async () => {
      const { file, client } = await someone()
      const title = 'é \ud83d “„” 😀 \u2028 \\ud83d'
      proxy.plan(() => null)

      const { outcome } = await play('rename', file, { arguments: [JSON.stringify(title)] })

      const records = await all((await client()).collection('bookmarks').records())
      expect(records.find(({ stored }) => stored.id === 'renamed')?.clear?.title).toBe(title)
      // A request that is rejected on its own has its own status.
      expect(outcome).toEqual([200, 405, 412, 200])
    },
  )

  itWithPython.each<[string, (responses: { status: number }[]) => object[]]>([
    ['is missing', (responses) => responses.slice(1)],
    ['is for another record', ([first, ...others]) => [...others, first!]],
    ['has a status of another method', ([first, ...others]) => [{ ...first, status: 204 }, ...others]],
  ])(`are an error if a response %s${why}`, async (_, change) => {
    const { file } = await someone()
    planFor('/batch', {
      kind: 'rewrite',
      body: (real) => JSON.stringify({ responses: change(JSON.parse(real).responses) }),
    })

    const { outcome } = await play('rename', file, { arguments: ['"New"'] })

    expect(outcome.error).toBe(
      'The bridge sent responses that do not match the requests: it is unknown what was written. Check before you repeat it.',
    )
  })
})

describe('files and readers', () => {
  itWithPython.each([1, 2, 3, 4, 5])(
    `are the same as in JavaScript, for any records: %d${why}`,
    async (seed) => {
      const given = randomRecords(new Chance(seed))
      const records = Object.entries(given).flatMap(([collection, clears]) =>
        clears.map((clear): ReadableRecord => {
          const stored = { id: String(clear.id), last_modified: 1_700_000_000_000 }
          return { collection, stored, clear, problem: null }
        }),
      )
      const of = (name: string) => records.filter(({ collection }) => collection === name)
      const data = {
        bookmarks: bookmarkTree(of('bookmarks')),
        history: of('history').map(({ clear }) => readVisitedPage(clear)),
        passwords: of('passwords'),
        tabs: of('tabs').map((record) => deviceTabs(record)),
        everything: { records, incomplete: new Map([['forms', 'Reason']]), exportedAt: new Date(1000) },
      }

      const { outcome } = await play('files', fileOf(bridge.user), { input: JSON.stringify(given) })

      const count = Object.values(exportFormats).flatMap(Object.keys).length
      expect(Object.keys(outcome.texts)).toHaveLength(count)
      for (const [what, formats] of Object.entries(exportFormats))
        for (const [name, format] of Object.entries(formats)) {
          const text = [...format(data[what as keyof typeof data] as never)].join('').toWellFormed()
          expect([what, name, ...outcome.texts[`${what} ${name}`].split('\n')]).toEqual([
            what,
            name,
            ...text.split('\n'),
          ])
        }
      expect(outcome.places).toEqual(
        walk(data.bookmarks).map(({ record, kind, title, path, level, position, siblings, count }) => [
          record.stored.id,
          kind,
          title.toWellFormed(),
          path.toWellFormed(),
          level,
          position,
          siblings,
          count,
        ]),
      )
      const tree = readTree(of('bookmarks'))
      const named = (find: () => string) => orMessage(find).toWellFormed()
      expect(outcome.folders).toEqual(
        (outcome.wanted as string[]).map((wanted) => [
          named(() => folderCalled(tree, wanted).id),
          named(() => folderNamed(data.bookmarks, wanted).record.stored.id),
        ]),
      )
      expect(outcome.said).toEqual(
        records.map(({ collection, clear }) =>
          [describeRecord(collection, clear), nameRecord(collection, clear)]
            .map((text): unknown => text.toWellFormed())
            .concat(faultOf(collection, clear), isUsable(collection, clear)),
        ),
      )
    },
  )

  itWithPython(`hold only a part of a list${why}`, async () => {
    const { user, store, file } = await someone()
    await replaceKeys(store)
    // Without an id, it is the content of any record.
    const payload = sealed(JSON.stringify({ title: 'x'.repeat(20_000), visits: [] }))
    for (let index = 0; index < 3000; index += 1)
      bridge.sandbox.write(user, 'history', [{ id: `page${index}`, payload }])

    const { outcome } = await play('memory', file, {
      arguments: ['history'],
      environment: { SCENE_BRIDGE: bridge.url },
    })

    expect(outcome[0]).toBe(3000)
    // The list alone is 60 MB.
    expect(outcome[1]).toBeLessThan(100)
  })
})

describe('edits', () => {
  itWithPython(`have the same effect as in JavaScript, for random trees and odd records${why}`, async () => {
    const count = Number(process.env.EDIT_RUNS ?? 100)
    const cases = Array.from({ length: count }, (_, seed) => editCase(new Chance(seed)))
    const asSent = (records: SyncRecord[]) =>
      records.map(({ stored, clear }) => ({ id: stored.id, version: stored.last_modified, clear }))
    // Half of them are taken as those of an undo.
    const wasStored = (index: number) => index % 2 === 1
    const input = cases.map(({ shown, now, wanted, edits }, index) => ({
      wasStored: wasStored(index),
      shown: asSent(shown),
      now: asSent(now),
      wanted: asSent(wanted),
      edits: edits.map(inPython),
    }))

    const { outcome } = await play('edits', fileOf(bridge.user), { input: JSON.stringify(input) })

    let writes = 0
    for (const [index, { shown, now, wanted, edits }] of cases.entries()) {
      const [before, present] = [readTree(shown), readTree(now)]
      const between = editsBetween(before, readTree(wanted), wasStored(index))
      const { tree, problems } = applyEdits(present, [...between, ...edits], before, wasStored(index))
      const expected = {
        edits: between.map(inPython),
        problems: problems.map(({ code, id, message }) => [code, id, message]),
        writes: requestsOf(present, tree),
      }
      expect([index, wellFormed(outcome[index])]).toEqual([index, wellFormed(expected)])
      writes += expected.writes.length
    }
    expect(writes).toBeGreaterThan(count)
  })

  itWithPython(`are taken back exactly, also what Firefox would not take${why}`, async () => {
    const odd = [
      { id: 'none', bmkUri: '', tags: ['t'], keyword: 'k' },
      { id: 'bad', bmkUri: 'http://[bad' },
      { id: 'long', bmkUri: 'HTTPS://long.example', title: 't'.repeat(5000) },
      { id: 'tags', bmkUri: 'https://tags.example/', tags: [' One', 'one', 'g'.repeat(101), ''] },
      { id: 'bare', bmkUri: 'https://bare.example/', title: null, tags: undefined, keyword: null },
      { id: 'good', bmkUri: 'https://good.example/' },
    ].map((each) => ({ type: 'bookmark', title: each.id, tags: [], parentid: 'menu', ...each }))
    const inside = { ...odd[5]!, id: 'inside', title: 'inside', parentid: 'folder' }
    const folder = { id: 'folder', type: 'folder', title: 'F', parentid: 'menu', children: ['inside'] }
    const children = [...odd.map(({ id }) => id), 'folder']
    const menu = { id: 'menu', type: 'folder', title: 'menu', parentid: 'places', children }
    const { file } = await someone(menu, folder, inside, ...odd)
    proxy.plan(() => null)

    const { outcome } = await play('undone', file)

    expect(outcome).toEqual([
      [[], true],
      [[], true],
      [['Cannot put "inside" into "F": it is no folder'], 'good'],
      [['"good" does not get its keyword "moved" back, which another address has'], ''],
      [true],
    ])
  })

  itWithPython(`are written, and taken back${why}`, async () => {
    const root = (id: string) => ({ id, type: 'folder', title: id, parentid: 'places', children: [] })
    const user = bridge.sandbox.addUser('editor')
    fillSampleData(bridge.sandbox, user, { isEmpty: true })
    for (const id of ['menu', 'toolbar', 'unfiled', 'mobile'])
      await upload({ sandbox: bridge.sandbox, user }, 'bookmarks', root(id))
    proxy.plan(() => null)

    const { outcome } = await play('edited', fileOf(user))

    const [inMenu, inToolbar] = ['Bookmarks Menu/A x', 'Bookmarks Toolbar/B y']
    expect(outcome.steps).toEqual([
      [],
      [inMenu],
      [inToolbar],
      [inToolbar, 'u'],
      ['u'],
      [inToolbar, 'u'],
      [inToolbar],
      [inMenu],
      [],
    ])
    expect(outcome.written).toEqual([2, 3, 1, 2])
  })
})

describe('a hostile bridge', () => {
  itWithPython(
    `never ends the package with anything but a ClientError${why}`,
    async () => {
      const count = Math.ceil(Number(process.env.FUZZ ?? 4000) / 100)
      const hostile = new HostileBridge(new Chance(Number(process.env.FUZZ_SEED ?? 20_780)), 10)
      using server = Bun.serve({
        hostname: '127.0.0.1',
        port: 0,
        async fetch(request) {
          const { status, headers, text } = await hostile.answer(request.url, await request.text())
          const isEmpty = request.method === 'HEAD' || status === 304
          return new Response(isEmpty ? null : text, { status, headers })
        },
      })
      const { token, keyId, syncKey } = hostileAccount
      const account = {
        bridge_url: `http://127.0.0.1:${server.port}`,
        token,
        key_id: keyId,
        sync_key: syncKey,
      }

      const { outcome } = await play('hostile', fileOf(bridge.user), {
        arguments: [JSON.stringify(account), String(count)],
      })

      const { failures, ...counts } = outcome
      // oxlint-disable-next-line no-console -- figures of a long run
      console.log(
        JSON.stringify({ runs: count, ...counts, damaged: hostile.damaged, failures: failures.length }),
      )
      expect(failures.slice(0, 5)).toEqual([])
      expect(outcome.done).toBeGreaterThan(outcome.refused)
    },
    3_600_000,
  )
})

describe('client.edit', () => {
  const add = async (file: string, bookmark: object) =>
    (await play('add', file, { arguments: [JSON.stringify(bookmark)] })).outcome

  itWithPython(
    `writes addresses in the form of JavaScript, rejects what it rejects, and writes nothing then${why}`,
    async () => {
      const { user, file } = await someone()
      const refusedUrls = [
        '',
        'a',
        '1:',
        'example.org',
        'http:',
        '//a',
        'http://a b/',
        'http://a%20b/',
        'http://a:b/',
        'http://192.168.1.300/',
        'http://1.2.3.4.5/',
        'http://foo.1/',
        'https://xn--a/',
        '\xa0https://a.example/',
      ]
      const boundaryCases = [
        'http://a:70000/',
        'http://[::1',
        'http://[::1]/',
        'http://[z]/',
        'https://a/ b',
        'http://a^b/',
      ]
      const acceptedUrls = [
        'https://é.example/?q=[]',
        'HTTP://A',
        'http://u:p@a:8080/',
        'http://0x7f.1./',
        'http://１92.168.1.30/',
        'https://XN--BCHER-KVA.example/',
        'javascript:1',
        'data:,a b',
        'https://faß.example/a/../b/%7e',
      ]
      const long = `https://a.example/${'x'.repeat(65_536)}`
      const encoded = `https://a.example/${'ä'.repeat(10_950)}`
      const longUrls = [long, long.slice(0, 65_536), encoded, encoded.slice(0, 10_900)]
      const urls = [...refusedUrls, ...boundaryCases, ...acceptedUrls, 'x://a b/', ...longUrls]
      const half = 'https://a\ud83d.example/\ud83d'

      const { outcome } = await play('addresses', file, { input: JSON.stringify([...urls, half]) })
      const stored = await play('stored_addresses', file, { input: JSON.stringify(urls) })
      const { error } = await add(file, { address: 'a \ud83d' })
      const withTag = (tag: string) =>
        add(file, { address: 'https://a.example/', folder: 'menu', tags: [tag] })
      const ignored = [await withTag(' \n'), await withTag('👍'.repeat(51))]

      expect(outcome.filter((url: string) => url !== half)).toEqual(
        urls.filter((url) => !URL.canParse(url) || new URL(url).href.length > 65_536),
      )
      expect(stored.outcome).toEqual(urls.map((url) => (URL.canParse(url) ? new URL(url).href : url)))
      for (const { error } of ignored) expect(error).toStartWith('Cannot add "https://a.example/": the tag "')
      expect(error).toEndWith(
        ' is no address: it must begin with https:// or similar, without spaces in its host',
      )
      expect(bridge.sandbox.records(user, 'bookmarks')).toHaveLength(1)
    },
  )

  itWithPython(`writes nothing to a full folder${why}`, async () => {
    await using small = await startTestBridge({
      settings: { record_bookmarks_put_enabled: 'true' },
      sandbox: { limits: { max_record_payload_bytes: 100_000 } },
    })
    fillSampleData(small.sandbox, small.user, { isEmpty: true })
    const folderOf = (size: number) => ({
      id: 'menu',
      type: 'folder',
      title: 'full',
      children: Array.from({ length: size }, (_, index) => String(index).padStart(12, '_')),
    })
    const file = fileOf(small.user)
    const addThere = async () => {
      const environment = { SCENE_BRIDGE: small.url }
      const argument = JSON.stringify({ address: 'https://a.example/', folder: 'menu' })
      return (await play('add', file, { arguments: [argument], environment })).outcome
    }
    const write = (size: number) => upload(small, 'bookmarks', folderOf(size))
    await write(5200)

    const refused = await addThere()
    const before = small.sandbox.records(small.user, 'bookmarks').length
    await write(4800)
    const added = await addThere()

    expect(refused).toEqual({
      error:
        'Nothing was written: the folder "full" is too large for the storage with 5201 entries. Choose another one',
      field: null,
      status: 413,
    })
    expect([before, small.sandbox.records(small.user, 'bookmarks').length]).toEqual([1, 2])
    expect(added.written).toBe(2)
  })

  itWithPython.each<Fault>([
    { kind: 'reset-after' },
    { kind: 'reset-mid-body', afterBytes: 10 },
    { kind: 'status-after', status: 502, body: '{"message":"The service is unavailable"}' },
    { kind: 'status-after', status: 504 },
  ])(`looks at what is there after a write without a response: %j${why}`, async (fault) => {
    const { user, file } = await someone()
    const asked = planFor('/batch', fault)

    const outcome = await add(file, { address: 'https://a.example/', folder: 'menu' })

    expect(outcome).toEqual({ id: expect.any(String), written: 0 })
    expect([asked(), bridge.sandbox.records(user, 'bookmarks').length]).toEqual([1, 2])
  })

  itWithPython(`recognizes that it was applied before it was repeated${why}`, async () => {
    const { user, file } = await someone()
    const pause = { status: 503, headers: { 'Retry-After': '5' } }
    const asked = planFor('/batch', { kind: 'status-after', ...pause })

    const outcome = await add(file, { address: 'https://a.example/', folder: 'menu' })

    expect(outcome.id).toBeString()
    expect([asked(), bridge.sandbox.records(user, 'bookmarks').length]).toEqual([2, 2])
  })

  itWithPython(`applies the edits again to what another device has changed${why}`, async () => {
    const { file, write, client } = await someone()
    let batches = 0
    proxy.plan(async ({ path }) => {
      if (path.endsWith('/batch') && ++batches === 1)
        await write({ id: 'menu', type: 'folder', title: 'Changed', children: ['other'] })
      return null
    })

    const { id } = await add(file, { address: 'https://a.example/', folder: 'menu' })

    const records = await all((await client()).collection('bookmarks').records())
    const menu = records.find(({ stored }) => stored.id === 'menu')!.clear!
    expect(batches).toBe(2)
    expect(menu).toMatchObject({ title: 'Changed', children: ['other', id] })
  })

  itWithPython(`are taken back in parts if they do not fit into one transaction${why}`, async () => {
    const { file } = await someone()
    proxy.plan(() => null)

    const { outcome } = await play('divided', file)

    expect(outcome).toEqual({
      before: 60,
      refused:
        'Nothing was written: this takes 62 requests in one transaction, and the bridge allows 25 (service.batch_max_requests). Change fewer items at once',
      after: [],
      parts: 3,
    })
  })

  itWithPython(`says that writes are not enabled${why}`, async () => {
    const { file } = await someone()
    await using closed = await startTestBridge({ tokenServerUrl: bridge.sandbox.tokenServerUrl })
    const { outcome } = await play('add', file, {
      arguments: [JSON.stringify({ address: 'https://a.example/', folder: 'menu' })],
      environment: { SCENE_BRIDGE: closed.url },
    })

    expect(outcome).toMatchObject({
      error: 'Nothing was written: writes to bookmarks are not enabled on this bridge',
      status: 405,
    })
  })
})

describe('pauses', () => {
  const pause = (seconds: string, status = 503): Fault => ({
    kind: 'status',
    status,
    headers: { 'Retry-After': seconds, 'Content-Type': 'application/json' },
    body: '{"message":"Too busy: try again later","errno":201}',
  })

  itWithPython(`of up to a minute are respected three times${why}`, async () => {
    const { file } = await someone()
    planFor('/bookmarks/records', pause('60'), pause('2', 429), pause('1'))
    const kept = await play('count', file)
    const asked = planFor('/bookmarks/records', ...Array<Fault>(4).fill(pause('1')))
    const given = await play('count', file)

    expect(kept.outcome).toMatchObject({ count: { total: 1 }, slept: [60, 2, 1] })
    expect(given.outcome).toEqual({
      error: 'The bridge returned 503. Try again in 1 s',
      field: null,
      status: 503,
    })
    expect(asked()).toBe(4)
  })

  itWithPython(`of more than a minute are reported${why}`, async () => {
    const { file } = await someone()
    const asked = planFor('/crypto/records/keys', pause('61'))

    const { outcome } = await play('count', file)

    expect(outcome).toEqual({ error: 'Too busy. Try again in 61 s', field: null, status: 503 })
    expect(asked()).toBe(1)
  })

  itWithPython(
    `requested by a Backoff interrupt neither a started read nor what retries it${why}`,
    async () => {
      const { file } = await someone()
      proxy.plan(() => ({ kind: 'rewrite', headers: { Backoff: '30' } }))
      const { outcome } = await play('pages', file)
      planFor('/bookmarks/records', {
        kind: 'status',
        status: 503,
        headers: { 'Retry-After': '1', Backoff: '30' },
      })
      const retried = await play('count', file)

      expect(outcome).toHaveLength(1)
      // Another thread is in the same state while one parses a response.
      expect(retried.outcome).toMatchObject({ count: { total: 1 }, slept: [1] })
    },
  )
})

describe('a proxy that changes the ETag', () => {
  const rewritten = (headers: Record<string, string>) =>
    proxy.plan(({ path }) => (path.endsWith('/bookmarks/records') ? { kind: 'rewrite', headers } : null))

  itWithPython.each([
    ['weakens', (moment: number) => `W/"${moment}"`],
    ['marks', (moment: number) => `"${moment}-gzip"`],
  ])(`and %s it does not change what is read${why}`, async (_, tag) => {
    const { file, client } = await someone({ id: 'one' }, { id: 'two' })
    const { lastModified } = await (await client()).collection('bookmarks').count()
    rewritten({ ETag: tag(lastModified) })

    const { outcome } = await play('pages', file)

    expect(outcome.map(([moment, { length }]: [number, object[]]) => [moment, length])).toEqual(
      [2, 1].map((length) => [lastModified, length]),
    )
  })

  itWithPython(`and removes it is reported${why}`, async () => {
    const { file } = await someone({ id: 'one' }, { id: 'two' })
    rewritten({ ETag: '' })

    const { outcome } = await play('pages', file)

    expect(outcome.error).toBe('The response has no ETag: does a proxy remove it?')
  })
})

describe('invalid responses', () => {
  itWithPython(`are distinguished${why}`, async () => {
    const { file } = await someone()
    const errorWith = async (fault: Fault) => {
      planFor('/bookmarks/records', fault)
      return (await play('pages', file)).outcome.error
    }

    const other = await errorWith({ kind: 'status', status: 200, body: '{"name":"other"}' })
    const unlisted = await errorWith({ kind: 'status', status: 200, body: '{"data":{}}' })
    const moved = await errorWith({
      kind: 'status',
      status: 302,
      headers: { Location: 'https://a.example/' },
    })
    planFor('/bookmarks/records', {
      kind: 'status',
      status: 302,
      headers: { Location: 'https://a.example/' },
    })
    const uncounted = (await play('count', file)).outcome.error
    const missing = await errorWith({ kind: 'status', status: 404, body: '<html>' })
    const cut = await errorWith({ kind: 'reset-mid-body', afterBytes: 20 })
    planFor('/crypto/records/keys', { kind: 'status', status: 404, body: '<html>' })
    const elsewhere = (await play('count', file)).outcome.error
    const reach = async (url: string) =>
      (await play('everything', file, { environment: { SCENE_BRIDGE: url } })).outcome.error

    const unexpected = 'The bridge sent an unexpected response: is this its address?'
    expect([other, unlisted, moved, uncounted, missing, elsewhere, cut]).toEqual([
      unexpected,
      'The bridge sent an unexpected response: it has no list of records',
      unexpected,
      unexpected,
      'A proxy or another server returned 404: is this the address of the bridge?',
      'A proxy or another server returned 404: is this the address of the bridge?',
      'The response broke off: the storage or the connection failed.',
    ])
    for (const url of ['http://127.0.0.1:1', 'http://127.0.0.1:99999', `http://${'a'.repeat(64)}.example`])
      expect(await reach(url)).toBe(`No response from the bridge at ${url}. Is it running?`)
  })
})

describe('an account', () => {
  /** A file that everyone can read, with an additional line of the user and an expired token. */
  function expired(more: Record<string, string> = {}) {
    const values: Record<string, string> = {
      ...accountOf(bridge.user),
      BEARER_TOKEN: bridge.user.bearerToken({ expiresInSeconds: -3600 }),
      REFRESH_TOKEN: accounts.grantRefreshToken(),
      TOKEN_ENDPOINT: `${accounts.url}/v1/oauth/token`,
      CLIENT_ID: '5882386c6d801776',
      ...more,
    }
    const folder = makeFolder()
    const file = join(folder, 'account.env')
    writeFileSync(file, `# mine\r\n${linesOf(values)}OTHER="as it is"\n`)
    chmodSync(file, 0o644)
    return { folder, file, values }
  }
  const renewals = () => accounts.requests.filter((asked) => asked === 'POST /v1/oauth/token').length

  itWithPython(`gets a new token once the old one has expired, and saves it in its file${why}`, async () => {
    const { folder, file, values } = expired()
    const before = renewals()
    proxy.plan(() => null)

    const first = await play('count', file)
    const text = readFileSync(file, 'utf8')
    const second = await play('count', file)

    const [, token] = /^BEARER_TOKEN=(.*)$/m.exec(text)!
    const old = values.BEARER_TOKEN!
    expect([first.outcome.count.total, first.errors, second.errors]).toEqual([
      second.outcome.count.total,
      '',
      '',
    ])
    expect(renewals() - before).toBe(1)
    expect(token).not.toBe(old)
    expect(text.replace(token!, old)).toBe(`# mine\r\n${linesOf(values)}OTHER="as it is"\n`)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['account.env'])
  })

  itWithPython(`can be renewed by two programs at the same time${why}`, async () => {
    const { folder, file } = expired()

    const errors = await Promise.all(Array.from({ length: 2 }, () => playAlone('count', file)))

    expect(errors).toEqual(['', ''])
    expect(readFileSync(file, 'utf8')).toMatch(/^# mine\r\n[^]*\nOTHER="as it is"\n$/)
    expect(readdirSync(folder)).toEqual(['account.env'])
  })

  itWithPython(`does not change a file that contains another account by now${why}`, async () => {
    const { file } = expired()
    const before = renewals()
    proxy.plan(() => null)

    const { outcome } = await play('replaced', file)

    expect([outcome, renewals() - before]).toEqual([true, 1])
  })

  itWithPython(`is reported as rejected after one new token, with the bridge's message${why}`, async () => {
    const { file } = expired()
    const refusal: Fault = { kind: 'status', status: 401, body: '{"message":"No \\ud83d","errno":104}' }
    const asked = planFor('/crypto/records/keys', refusal, refusal, refusal)

    const { outcome } = await play('count', file)

    expect(outcome).toEqual({ error: 'No \ufffd', field: 'key_id', status: 401 })
    expect(asked()).toBe(2)
  })

  itWithPython(`gets advice about a bot check, and the reason of a missing response${why}`, async () => {
    await using guarded = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: ({ url }) =>
        url.endsWith('/406')
          ? new Response(null, { status: 406 })
          : url.endsWith('/302')
            ? Response.redirect(`${accounts.url}/v1/oauth/token`, 307)
            : Response.json({ access_token: 'a b; echo' }),
    })
    const strange = expired({ TOKEN_ENDPOINT: `${guarded.url}v1` }).file
    const before = readFileSync(strange, 'utf8')
    const files = [
      strange,
      expired({ TOKEN_ENDPOINT: `${guarded.url}406` }).file,
      expired({ TOKEN_ENDPOINT: `${guarded.url}302` }).file,
      expired({ TOKEN_ENDPOINT: 'http://127.0.0.1:1/v1' }).file,
      expired({ REFRESH_TOKEN: '' }).file,
    ]
    proxy.plan(() => null)

    const { outcome } = await play('opened', strange, { arguments: files })

    const failure = 'Cannot renew the access token'
    const recipe = 'get new values from Firefox with the recipe'
    expect(outcome).toMatchObject([
      { error: `${failure}: the account server returned 200` },
      {
        error: `${failure}: the account server requires a check that only browsers pass (406). Try again later or from another network, or ${recipe}`,
      },
      { error: `${failure}: the account server returned 307` },
      { error: `${failure}: no response from 127.0.0.1:1` },
      { field: 'token', status: 401 },
    ])
    expect(readFileSync(strange, 'utf8')).toBe(before)
  })

  itWithPython(`continues if its new token cannot be saved, and leaves nothing behind${why}`, async () => {
    const { folder, file } = expired()
    const before = readFileSync(file, 'utf8')
    proxy.plan(() => null)

    // Imitates a full disk: files must stay empty.
    const script = `trap '' XFSZ; ulimit -f 0; exec "$@"`
    const command = [join(environment, 'bin/python'), scenes, 'count']
    const { errors, code } = await runToEnd(['sh', '-c', script, 'sh', ...command], {
      environment: told(file),
    })

    expect(errors).toContain(`The new access token is not in "${file}", the next run will need another: `)
    expect([code, readdirSync(folder), readFileSync(file, 'utf8')]).toEqual([0, ['account.env'], before])
  })

  itWithPython(`revokes its refresh token${why}`, async () => {
    const { file } = expired()

    const ended = [await play('revoke', file), await play('revoke', file)]
    const { outcome } = await play('count', file)

    expect(ended.map((each) => each.outcome)).toEqual([null, null])
    expect(outcome).toMatchObject({
      error:
        'The refresh token was revoked, or the password was changed: get new values from Firefox with the recipe',
      field: 'token',
    })
  })

  itWithPython(`goes to no other bridge, which a variable has left over${why}`, async () => {
    const file = fileOf(bridge.user, { BRIDGE_URL: `${bridge.url}/v1` })
    const other = 'http://me:word@127.0.0.1:1'

    const refused = await playIn({ SYNC_BRIDGE_ACCOUNT: file, BRIDGE_URL: other }, 'count')
    const same = await playIn({ SYNC_BRIDGE_ACCOUNT: file, BRIDGE_URL: bridge.url }, 'count')

    expect(refused.outcome.error).toBe(
      `BRIDGE_URL in the environment is ********@127.0.0.1:1, but the account "${file}" uses ${bridge.url}/v1. Unset BRIDGE_URL, or pass bridge_url="********@127.0.0.1:1"`,
    )
    expect(same.outcome.count.total).toBeGreaterThan(0)
  })

  itWithPython(`takes no proxy for http and no password from its environment${why}`, async () => {
    const { file } = expired()
    const home = makeFolder({ '.netrc': 'default login somebody password word\n' })
    const seen: (string | null)[] = []
    await using account = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch(request) {
        seen.push(request.headers.get('Authorization'))
        return fetch(`${accounts.url}/v1/oauth/token`, {
          method: 'POST',
          headers: request.headers,
          body: request.body,
        })
      },
    })
    const text = readFileSync(file, 'utf8').replace(accounts.url, account.url.origin)
    writeFileSync(file, text)
    const nowhere = 'http://127.0.0.1:1'
    const proxies = { http_proxy: nowhere, HTTP_PROXY: nowhere, ALL_PROXY: nowhere, all_proxy: nowhere }

    const variables = { ...told(file), SCENE_BRIDGE: bridge.url, HOME: home, ...proxies }
    const { outcome } = await playIn(variables, 'count')

    expect(outcome.count.total).toBeGreaterThan(0)
    expect(seen).toEqual([null])
  })

  itWithPython(
    `uses the proxy of HTTPS_PROXY for https, but for NO_PROXY and this machine${why}`,
    async () => {
      const asked: string[] = []
      const refuse = 'HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n'
      using proxy = Bun.listen({
        hostname: '127.0.0.1',
        port: 0,
        socket: {
          data(socket, bytes) {
            asked.push(bytes.toString().split(' HTTP/')[0]!)
            socket.end(refuse)
          },
        },
      })
      const variables = {
        SYNC_BRIDGE_ACCOUNT: fileOf(bridge.user),
        HTTPS_PROXY: `http://127.0.0.1:${proxy.port}`,
      }
      const reach = (SCENE_BRIDGE: string, NO_PROXY = '') =>
        playIn({ ...variables, SCENE_BRIDGE, NO_PROXY }, 'everything')

      const { outcome } = await reach('https://bridge.invalid')
      await reach('https://bridge.invalid', 'a.example, .invalid')
      await reach('https://127.0.0.1:1')
      await reach('http://bridge.invalid')

      expect(outcome.error).toBe('No response from the bridge at https://bridge.invalid. Is it running?')
      expect(asked).toEqual(['CONNECT bridge.invalid:443'])
    },
  )

  itWithPython(`is not renewed by a server that never stops sending, nor in plain text${why}`, async () => {
    let sent = 0
    const pull = (controller: ReadableStreamDefaultController) => {
      sent += 1000
      controller.enqueue(new Uint8Array(1000))
    }
    await using endless = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => new Response(new ReadableStream({ pull })),
    })
    const { file } = expired({ TOKEN_ENDPOINT: `${endless.url}token` })
    const plain = expired({ TOKEN_ENDPOINT: 'http://accounts.invalid/token' }).file
    proxy.plan(() => null)

    const { outcome } = await play('opened', file, { arguments: [file, plain] })

    expect(outcome).toMatchObject([
      { error: `Cannot renew the access token: no response from ${endless.url.host}` },
      {
        error:
          'Cannot renew the access token: TOKEN_ENDPOINT must begin with https://, unless it is on this machine',
      },
    ])
    expect(sent).toBeLessThan(20_000_000)
  })

  itWithPython(`is not renewed by a server that sends its headers byte by byte${why}`, async () => {
    let sent = 0
    let timer: Timer
    using slow = Bun.listen({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        data(socket) {
          socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Long: ')
          // Each byte comes within the deadline of a second, and all of them in ten.
          timer = setInterval(() => {
            if (sent < 100) sent += socket.write('x')
            else socket.end('\r\n\r\n')
          }, 100)
        },
        close: () => clearInterval(timer),
      },
    })
    const { file } = expired({ TOKEN_ENDPOINT: `http://127.0.0.1:${slow.port}/token` })
    proxy.plan(() => null)

    const { outcome } = await play('impatient', file)

    expect(outcome.error).toBe(`Cannot renew the access token: no response from 127.0.0.1:${slow.port}`)
    expect(sent).toBeLessThan(100)
  })

  itWithPython(`shows no secret, and reports a missing file${why}`, async () => {
    const { file, values } = expired()
    const missing = join(makeFolder(), 'none.env')

    const { outcome } = await play('shown', file)
    const none = await play('shown', missing)

    for (const name of ['BEARER_TOKEN', 'SYNC_KEY', 'REFRESH_TOKEN'])
      expect(outcome).not.toContain(values[name]!)
    expect(outcome).toContain(values.KEY_ID!)
    expect(none.outcome.error).toBe(`There is no account file "${missing}": run "sync-bridge connect"`)
  })

  itWithPython(`is parsed, cleaned and rejected like in JavaScript${why}`, async () => {
    const { KEY_ID, BUCKET, SYNC_KEY } = accountOf(bridge.user)
    const rest = `BRIDGE_URL=${bridge.url}\nKEY_ID=${KEY_ID}\n`
    const base64 = Buffer.from(SYNC_KEY, 'hex').toString('base64url')
    const texts = [
      `${rest}BEARER_TOKEN=t\nBUCKET=${BUCKET.toUpperCase()}\nSYNC_KEY=${base64}==`,
      `export BEARER_TOKEN='Bearer t'\n"KEY_ID=${KEY_ID}"\nBRIDGE_URL="${bridge.url}/v1" SYNC_KEY=${SYNC_KEY} X=1`,
      `${rest}BEARER_TOKEN=`,
      `${rest}BEARER_TOKEN=a…b`,
      `BEARER_TOKEN=t\nKEY_ID=1-short\nBRIDGE_URL=${bridge.url}`,
      `${rest}BEARER_TOKEN=t\nBUCKET=${'0'.repeat(32)}`,
      `${rest}BEARER_TOKEN=t\nSYNC_KEY=key`,
      ...['ftp://a', 'https://me:word@a', 'https://a/?x=1'].map(
        (url) => `KEY_ID=${KEY_ID}\nBEARER_TOKEN=t\nBRIDGE_URL=${url}`,
      ),
      `\uFEFF${rest}BEARER_TOKEN=t\r\n# BRIDGE_URL=ftp://a\r\n\t#SYNC_KEY=key\r\n`,
    ]

    const { outcome } = await play('accounts', fileOf(bridge.user), { input: JSON.stringify(texts) })

    const fields: Record<string, string> = { keyId: 'key_id', syncKey: 'sync_key', bridgeUrl: 'bridge_url' }
    const expected = texts.map((text) => {
      try {
        return formatAccount(checkAccount(parseAccount(text)))
      } catch (error) {
        const { field, message } = error as { field: string; message: string }
        return [fields[field] ?? field, message]
      }
    })
    expect(outcome).toEqual(expected)
    expect(outcome.filter(Array.isArray)).toHaveLength(8)
  })

  itWithPython(`reports a string where names are expected, and a missing value${why}`, async () => {
    proxy.plan(() => null)

    const { outcome } = await play('misused', fileOf(bridge.user))

    const names = ['later', 'forms', 'forms'].map(
      (name) => `Expected a list of names, got the string "${name}"`,
    )
    expect(outcome).toEqual([...names, 'The access token is missing.'])
  })

  itWithPython(`reports a wrong or missing key, or an account without keys${why}`, async () => {
    const empty = bridge.sandbox.addUser('nobody yet')
    proxy.plan(() => null)

    const other = fileOf(bridge.user, { SYNC_KEY: '00'.repeat(64) })
    const without = fileOf(bridge.user, { SYNC_KEY: '' })

    const { outcome } = await play('opened', other, { arguments: [other, without, fileOf(empty)] })

    expect(outcome).toEqual([
      {
        error: 'This sync key does not decrypt the account: it is outdated, or belongs to another account.',
        field: 'sync_key',
        status: null,
      },
      { error: 'The sync key is missing: nothing can be decrypted.', field: 'sync_key', status: null },
      {
        error: 'This account has no keys yet: has any Firefox synced to it?',
        field: null,
        status: 404,
      },
    ])
  })
})

describe('changes', () => {
  itWithPython(`yields changes since the previous round, and survives a failing round${why}`, async () => {
    const { user, store, file, write } = await someone({ id: 'old', title: 'old' })
    const child = Bun.spawn([join(environment, 'bin/python'), '-u', scenes, 'watch'], {
      env: { PATH: '/usr/bin:/bin', ...told(file) },
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    const lists = () => proxy.requests.filter((asked) => asked.path.endsWith('/bookmarks/records')).length
    const before = lists()
    const happenings: (() => unknown)[] = [
      () => bridge.sandbox.write(user, 'forms', [{ id: 'excluded', payload: 'plain' }]),
      () => write({ id: 'first', title: 'first' }).then(() => write({ id: 'second', title: 'second' })),
      () => {
        proxy.plan(() => ({ kind: 'status', status: 500, body: '{"message":"The storage failed"}' }))
        return write({ id: 'old', deleted: true })
      },
      () => proxy.plan(() => ({ kind: 'rewrite', headers: { Backoff: '30' } })),
      () => {
        proxy.plan(() => null)
        return bridge.sandbox.write(user, 'bookmarks', [{ id: 'plain', payload: 'plain' }])
      },
      async () => {
        await replaceKeys(store)
        await write({ id: 'by new keys' })
      },
    ]
    proxy.plan(() => null)
    let last = ''
    for await (const line of linesIn(child.stdout)) {
      last = line
      if (!line.includes('asleep')) continue
      const happening = happenings.shift()
      if (happening === undefined) await child.stdin.end()
      else {
        await happening()
        child.stdin.write('\n')
        await child.stdin.flush()
      }
    }

    const { seen, naps, pauses, failures } = JSON.parse(last)
    expect(seen.map(({ stored, clear, problem }: SyncRecord) => [stored.id, clear, problem])).toEqual([
      ['first', { id: 'first', title: 'first' }, null],
      ['second', { id: 'second', title: 'second' }, null],
      ['old', { id: 'old', deleted: true }, null],
      ['plain', null, 'It is not encrypted in the format of Firefox'],
      ['by new keys', { id: 'by new keys' }, null],
    ])
    expect(failures).toEqual(['The storage failed'])
    const kinds = naps.map((seconds: number) => (seconds > 7 && seconds <= 30 ? 'Backoff' : seconds))
    expect(kinds).toEqual([7, 7, 7, 7, 'Backoff', 'Backoff', 'Backoff'])
    expect(pauses).toEqual([200, 200, 200])
    // Only changes are listed.
    expect(lists() - before).toBe(4)
  })
})

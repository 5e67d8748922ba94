import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeClientPackage } from '../../.ci/javascript-client.ts'
import * as packageExports from '../../src/client/index.ts'
import { packagePages, underscored } from '../../.ci/package-features.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { accountAt } from '../client/world.ts'
import { accountOf, linesOf } from '../support/records.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { clientPackage, node, projectWithClient } from '../support/client-package.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { runProgram, startProgram } from '../support/processes.ts'

const root = join(import.meta.dir, '../..')
const why = 'reason' in node ? ` (NOT RUN: ${node.reason})` : ''
const nodePath = 'path' in node ? node.path : ''
const readme = readFileSync(join(root, 'src/client/README.md'), 'utf8')
const [, tenLines] = /^```js\n([^]*?)^```$/m.exec(readme)!

let bridge: TestBridge
beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['bookmarks'] })
  fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 20, history: 1 })
})
afterAll(async () => {
  await bridge.stop()
  endAll()
})

// npm and Node, because users install the package there, and not in Bun.
describe('the features of both packages', () => {
  const python = readFileSync(join(root, 'clients/python/sync_bridge_client/__init__.py'), 'utf8')
  const pythonNames = Array.from(python.matchAll(/^ {4}"(\w+)",$/gm), ([, name]) => name!)

  it('have the same names, but for the types of Python', () => {
    const inPython = new Set(pythonNames)
    const isClass = (name: string) => /^[A-Z][a-z]/.test(name)
    const ours = Object.keys(packageExports).map((name) => {
      const words = underscored(name)
      return isClass(name) ? name : inPython.has(words.toUpperCase()) ? words.toUpperCase() : words
    })

    expect(ours.filter((name) => !isClass(name)).toSorted()).toEqual(
      pythonNames.filter((name) => !isClass(name)).toSorted(),
    )
    expect(ours.filter((name) => isClass(name) && !inPython.has(name))).toEqual([])
  })

  it.each(packagePages())('are in %s; "make pages" writes the table', (path, text) => {
    expect(readFileSync(join(root, path), 'utf8')).toBe(text)
    expect(text).toContain('\n## Features\n\n| To | Use |\n')
  })

  it('are a table of names that exist', () => {
    const guide = readFileSync(join(root, 'docs/clients.md'), 'utf8')
    const [table] = guide.match(/^\| To \| Use \|\n(?:\|.*\n)+/m)!
    const names = Array.from(table.matchAll(/`([\w.]+)`/g), ([, name]) => name!)
    const pythonClient = readFileSync(join(root, 'clients/python/sync_bridge_client/sync_client.py'), 'utf8')
    const isMissing = (name: string) => {
      if (!name.startsWith('client.')) return !(name in packageExports)
      const method = name.slice(7)
      return !(method in SyncClient.prototype) || !pythonClient.includes(`    def ${underscored(method)}(`)
    }

    expect(names.length).toBeGreaterThan(20)
    expect(names.filter(isMissing)).toEqual([])
  })
})

describe('sync-bridge-client.tgz', () => {
  it('is reproducible, and has the version of everything else', async () => {
    const { tarball } = clientPackage()
    const again = await makeClientPackage(makeFolder())

    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    expect(tarball).toEndWith(`/sync-bridge-client-${version}.tgz`)
    expect(readFileSync(again).equals(readFileSync(tarball))).toBe(true)
  })

  describe.skipIf('reason' in node)(`in a fresh project${why}`, () => {
    /** A project of ES modules, with the account of the bridge's user. */
    let project: string
    if ('path' in node) {
      beforeAll(async () => {
        const account = linesOf({ BRIDGE_URL: bridge.url, ...accountOf(bridge.user) })
        project = await projectWithClient({ 'account.env': account }, { type: 'module' })
      })
    }

    it('needs nothing else, and has each module with its types', async () => {
      const installed = join(project, 'node_modules/sync-bridge-client')
      const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
      const files = readdirSync(join(root, 'src/client'), { recursive: true }).map(String)
      const sources = files.filter((name) => name.endsWith('.ts')).map((name) => name.replace('.ts', ''))
      const built = sources.flatMap((name) => [`${name}.d.ts`, `${name}.js`])
      expect(readdirSync(join(project, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual([
        'sync-bridge-client',
      ])
      expect(manifest).toMatchObject({ license: 'MPL-2.0', type: 'module', engines: { node: '>=20' } })
      expect(manifest.dependencies).toBeUndefined()
      const modules = readdirSync(join(installed, 'lib'), { recursive: true }).map(String)
      // A module that `index.ts` does not reach is not in it.
      const packed = modules.filter((name) => /\.[jt]s$/.test(name))
      expect(packed.filter((name) => !built.includes(name))).toEqual([])
      const names = (ending: string) =>
        packed.filter((name) => name.endsWith(ending)).map((name) => name.slice(0, -ending.length))
      expect(names('.js').toSorted()).toEqual(names('.d.ts').toSorted())
      expect(packed).toContain('edit/save.js')
    })

    it.each([
      ['Node', nodePath],
      ['Bun', process.execPath],
    ])('lists, adds and watches as documented, in %s', async (name, runtime) => {
      const since = (await new SyncClient(accountAt(bridge)).collection('bookmarks').count()).lastModified
      // Watching starts before the bookmark is added, so that the first round reports it.
      const program = tenLines!
        .replace('readAccountFile()', `readAccountFile(${JSON.stringify(join(project, 'account.env'))})`)
        .replace("'Example'", `'Added by ${name}'`)
        .replace('client.changes()', `client.changes({ since: ${since} })`)
      await Bun.write(join(project, 'listing.js'), program)

      await using running = await startProgram([runtime, join(project, 'listing.js')], () => true)
      await eventually('the bookmark is watched', () => /^bookmarks \{[^}]*Added by/m.test(running.output()))

      const [listed] = running.output().split('\nbookmarks {')
      expect(listed).toMatch(/^Bookmarks Toolbar|^toolbar/m)
      expect(listed).toMatch(/^ {4}\S/m)
      expect(listed).not.toContain(`Added by ${name}`)
    })

    it('renews a token, and exports the crypto module, in projects of either kind', async () => {
      const program = `
import { collectionKeys, decryptRecord, encryptRecord, keyPairFromHex } from 'sync-bridge-client/crypto'
import { renewToken } from 'sync-bridge-client'
const own = keyPairFromHex('${'0123456789abcdef'.repeat(8)}')
const pair = ['${'A'.repeat(43)}=', '${'B'.repeat(43)}=']
const keys = { id: 'keys', default: pair, collections: {} }
const keysOf = await collectionKeys(own, { id: 'keys', payload: await encryptRecord(own, keys) })
const payload = await encryptRecord(keysOf('tabs'), { id: 'a', title: '«é»' })
const account = { refreshToken: 'r', clientId: 'c', tokenEndpoint: 'https://accounts.example/v1/token' }
const token = await renewToken(account, async () => Response.json({ access_token: 'new' }))
console.log((await decryptRecord(keysOf('tabs'), { id: 'a', payload })).title, token)
`
      await Bun.write(join(project, 'renewing.js'), program)
      // "npm init" now creates the other kind.
      const common = await projectWithClient({ 'renewing.mjs': program }, { type: 'commonjs' })

      expect(await runProgram([nodePath, 'renewing.js'], { cwd: project })).toBe('«é» new\n')
      expect(await runProgram([nodePath, 'renewing.mjs'], { cwd: common })).toBe('«é» new\n')
    })

    it('has types for a strict compiler', async () => {
      const program = `
import { bookmarkTree, changes, connect, isReadable, type Account, type RecordEdit, type SyncRecord } from 'sync-bridge-client'
import { decryptRecord, type ClearRecord } from 'sync-bridge-client/crypto'
export async function use(account: Partial<Account>): Promise<string[]> {
  const client = await connect(account, { maxPauses: 0, onNewToken: (token) => void token.length })
  const records: SyncRecord[] = []
  for await (const record of client.collection('bookmarks').records({ since: 1 })) records.push(record)
  const { records: [added], saved } = await client.edit([{ op: 'add', address: 'https://a.example/' }])
  const { id } = added!.stored
  if (saved) await client.undo(saved)
  const login: RecordEdit<'passwords'> = { op: 'change', id, fields: { username: 'u' } }
  await client.edit([login], { collection: 'passwords' })
  for await (const { clear } of changes(client)) return [String(clear?.deleted)]
  const marked = bookmarkTree(records.filter(isReadable), ({ stored }) => ({ mark: stored.id.length }))
  const clear: ClearRecord = await decryptRecord(client.keysOf('tabs'), { id })
  return marked.map(({ mark, title, children }) => title + mark.toFixed() + children[0]!.mark.toFixed() + clear.id)
}
`
      const wrong = program.replace('mark.toFixed()', 'mark.trim()')
      const compilerOptions = {
        strict: true,
        target: 'ES2023',
        lib: ['ES2023', 'DOM'],
        // The strictest module resolution; compilers for bundlers accept more.
        module: 'NodeNext',
        moduleResolution: 'NodeNext',
        types: [],
        noEmit: true,
        skipDefaultLibCheck: true,
      }
      const tsconfig = JSON.stringify({ compilerOptions, include: ['*.ts'] })
      const files = { 'program.ts': program, 'wrong.ts': wrong, 'tsconfig.json': tsconfig }
      for (const [name, text] of Object.entries(files)) await Bun.write(join(project, name), text)

      const compiler = join(root, 'node_modules/typescript/bin/tsc')
      const found = await runProgram([process.execPath, compiler, '-p', project]).then(String, String)

      // Only the faulty line: any other error, even without a file name, fails the test.
      expect(found).toMatch(
        /wrong\.ts\(\d+,\d+\): error TS2339: Property 'trim' does not exist on type 'number'/,
      )
      expect(found.match(/error TS/g)).toHaveLength(1)
    })
  })
})

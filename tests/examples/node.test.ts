import { afterAll, describe, expect, it } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { runProgram } from '../support/processes.ts'
import { endAll, makeFolder } from '../support/executable.ts'

const source = join(import.meta.dir, '../../docs/examples/sync-crypto.js')
afterAll(endAll)
const node = Bun.which('node')
const version = node ? Bun.spawnSync([node, '--version']).stdout.toString().trim() : 'none'
// Debian 12 has Node 18, which has no Web Crypto by default.
const isRecent = Number(version.match(/\d+/)?.[0]) >= 20
const why = isRecent ? '' : ` (NOT RUN: Node 20 or later is needed, this is ${version})`

const program = (file: string) => `
import { collectionKeys, decryptRecord, encryptRecord, keyPairFromHex } from './${file}'
const own = keyPairFromHex('${'0123456789abcdef'.repeat(8)}')
const pair = ['${'A'.repeat(43)}=', '${'B'.repeat(43)}=']
const keys = { id: 'keys', default: pair, collections: {} }
const keysOf = await collectionKeys(own, { id: 'keys', payload: await encryptRecord(own, keys) })
const payload = await encryptRecord(keysOf('tabs'), { id: 'a', title: '«é»' })
const clear = await decryptRecord(keysOf('tabs'), { id: 'a', payload })
console.log(clear.title)
`

describe.skipIf(!isRecent)(`sync-crypto.js in a fresh Node project${why}`, () => {
  it.each([
    // What "npm init" writes today.
    ['called .mjs', 'sync-crypto.mjs', 'program.mjs', { type: 'commonjs' }],
    ['as it is, in modules', 'sync-crypto.js', 'program.js', { type: 'module' }],
    ['called .mjs, in an older project', 'sync-crypto.mjs', 'program.mjs', {}],
  ])('decrypts and encrypts: %s', async (_, file, entry, manifest) => {
    const manifestText = JSON.stringify({ name: 'fresh', version: '1.0.0', ...manifest })
    const cwd = makeFolder({ 'package.json': manifestText, [entry]: program(file) })
    copyFileSync(source, join(cwd, file))

    expect(await runProgram([node!, entry], { cwd })).toBe('«é»\n')
  })
})

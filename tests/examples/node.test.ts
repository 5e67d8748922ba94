import { afterAll, describe, expect, it } from 'bun:test'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endAll, makeFolder } from '../system/process.ts'

const source = join(import.meta.dir, '../../docs/examples/sync-crypto.js')
afterAll(endAll)
const node = Bun.which('node')

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

describe.skipIf(!node)('sync-crypto.js in a fresh Node project', () => {
  it.each([
    // What "npm init" writes today.
    ['called .mjs', 'sync-crypto.mjs', 'program.mjs', { type: 'commonjs' }],
    ['as it is, in modules', 'sync-crypto.js', 'program.js', { type: 'module' }],
    ['called .mjs, in an older project', 'sync-crypto.mjs', 'program.mjs', {}],
  ])('decrypts and encrypts: %s', async (_, file, entry, manifest) => {
    const folder = makeFolder()
    copyFileSync(source, join(folder, file))
    writeFileSync(
      join(folder, 'package.json'),
      JSON.stringify({ name: 'fresh', version: '1.0.0', ...manifest }),
    )
    writeFileSync(join(folder, entry), program(file))

    const child = Bun.spawn([node!, entry], { cwd: folder, stdout: 'pipe', stderr: 'pipe' })
    const output = await new Response(child.stdout).text()
    const errors = await new Response(child.stderr).text()

    expect([output, errors]).toEqual(['«é»\n', ''])
  })
})

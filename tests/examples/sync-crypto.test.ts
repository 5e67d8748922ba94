import { afterAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import { decryptRecord, keyPairFromHex } from '../../src/client/crypto.ts'
import { clear, damaged, key, sealed } from '../client/damaged.ts'
import { findPython } from '../clients/python.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { runProgram } from '../support/processes.ts'

const python = await findPython('cryptography==48.0.0')
const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
afterAll(endAll)

describe('sync_crypto.py', () => {
  it.skipIf('reason' in python)(`skips every record that is damaged, and names it${why}`, async () => {
    const program = `
import json, sys
sys.path.insert(0, ${JSON.stringify(join(import.meta.dir, '../../docs/examples/python'))})
sys.dont_write_bytecode = True
from sync_crypto import decrypt_records, key_pair_from_hex
keys = key_pair_from_hex("${key}")
payloads = json.load(open("payloads.json"))
found = {}
for name, payload in payloads.items():
    readable, unreadable = decrypt_records(keys, [{"id": "right", "payload": payload}])
    found[name] = readable or unreadable
print(json.dumps(found))
`
    const payloads = JSON.stringify({ ...damaged, whole: sealed(clear) })
    const cwd = makeFolder({ 'payloads.json': payloads, 'program.py': program })

    const path = 'path' in python ? python.path : ''
    const found = JSON.parse(await runProgram([path, 'program.py'], { cwd }))

    const skipped = Object.fromEntries(Object.keys(damaged).map((name) => [name, ['right']]))
    expect(found).toEqual({ ...skipped, whole: [JSON.parse(clear)] })
  })
})

describe('sync_crypto.py', () => {
  it.skipIf('reason' in python)(
    `encrypts half a surrogate pair, as titles have it that were cut${why}`,
    async () => {
      const program = `
import sys
sys.path.insert(0, ${JSON.stringify(join(import.meta.dir, '../../docs/examples/python'))})
sys.dont_write_bytecode = True
from sync_crypto import encrypt_record, key_pair_from_hex
print(encrypt_record(key_pair_from_hex("${key}"), {"id": "a", "title": "é \\ud83d"}))
`
      const payload = await runProgram(['path' in python ? python.path : '', '-c', program])

      const clear = await decryptRecord(keyPairFromHex(key), { id: 'a', payload })
      expect(clear).toEqual({ id: 'a', title: 'é \ud83d' })
    },
  )
})

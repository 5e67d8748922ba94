import { afterAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'
import { keyPairFromHex } from '../../src/client/crypto.ts'
import { decryptRecords } from '../../src/client/decrypt-records.ts'
import { clear, damaged, key, sealed } from '../client/damaged.ts'
import { clientNeeds, findPython } from './python.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import { runProgram } from '../support/processes.ts'

const python = await findPython(...clientNeeds)
const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
afterAll(endAll)

describe('the Python package', () => {
  const environment = {
    PYTHONPATH: join(import.meta.dir, '../../clients/python'),
    PYTHONDONTWRITEBYTECODE: '1',
  }
  const path = 'path' in python ? python.path : ''

  it.skipIf('reason' in python)(
    `skips every damaged record, with the same reason as src/client${why}`,
    async () => {
      const program = `
import json
from sync_bridge_client import decrypt_records, key_pair_from_hex
keys = key_pair_from_hex("${key}")
found = {name: decrypt_records(keys, [("right", payload)]) for name, payload in json.load(open("payloads.json")).items()}
print(json.dumps(found))
`
      const payloads = {
        ...damaged,
        whole: sealed(clear),
        'a mark at its beginning': sealed(`\ufeff${clear}`),
        'base64 in lines': sealed(clear, { IV: 'AAAAAAAAAAAA\r\nAAAAAAAAAA==\n' }),
      }
      const cwd = makeFolder({ 'payloads.json': JSON.stringify(payloads), 'program.py': program })

      type Found = Record<string, [unknown[], unknown[]]>
      const found: Found = JSON.parse(await runProgram([path, 'program.py'], { cwd, environment }))

      const pair = keyPairFromHex(key)
      for (const [name, payload] of Object.entries(payloads)) {
        const { readable, unreadable } = await decryptRecords(pair, [{ id: 'right', payload }])
        expect([name, found[name]]).toEqual([
          name,
          [readable, unreadable.map(({ id, reason }) => [id, reason])],
        ])
      }
      expect(Object.values(found).filter(([readable]) => readable.length > 0)).toHaveLength(3)
    },
  )

  it.skipIf('reason' in python)(
    `adds the id to deletions without one, which phones write${why}`,
    async () => {
      const program = `
import json
from sync_bridge_client import decrypt_record, key_pair_from_hex
print(json.dumps(decrypt_record(key_pair_from_hex("${key}"), "right", json.load(open("payload.json")))))
`
      const payload = JSON.stringify(sealed('{"deleted":true}'))
      const cwd = makeFolder({ 'payload.json': payload, 'program.py': program })

      const found = JSON.parse(await runProgram([path, 'program.py'], { cwd, environment }))

      expect(found).toEqual({ id: 'right', deleted: true })
    },
  )
})

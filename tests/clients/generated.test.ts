import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import openapiTS, { astToString } from 'openapi-typescript'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { runToEnd } from '../support/processes.ts'
import { findPython } from './python.ts'

const generator = 'openapi-python-client==0.29.1'
const pythonGenerator = await findPython(generator)
// Without Python or the package, the test name says why it is skipped.
const why = 'reason' in pythonGenerator ? ` (NOT RUN: ${String(pythonGenerator.reason)})` : ''

let bridge: TestBridge
let folder: string
let document: string

beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['bookmarks'] })
  // In the checkout, so that the packages are found.
  const dist = join(import.meta.dir, '../../dist')
  mkdirSync(dist, { recursive: true })
  folder = mkdtempSync(join(dist, 'generated-'))
  document = join(folder, 'api.json')
  await Bun.write(document, (await bridge.ask('/v1/__api__', { as: null })).text)
})

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await bridge.stop()
})

async function run(command: string[]): Promise<{ code: number; output: string }> {
  const { Authorization = '', 'X-KeyID': keyId = '' } = bridge.identityOf(bridge.user)
  const environment = {
    // The generator runs the formatter that is installed next to it.
    PATH: `${dirname(command[0]!)}:${process.env.PATH}`,
    BRIDGE_URL: `${bridge.url}/v1`,
    TOKEN: Authorization.replace('Bearer ', ''),
    KEY_ID: keyId,
    BUCKET: bridge.user.clientState,
  }
  const { output, errors, code } = await runToEnd(command, { cwd: folder, environment })
  return { code, output: output + errors }
}

/** The output of both clients after putting two records, and reading and listing them. */
const printed = [
  'stored one',
  'batch 200 200',
  'read 1',
  'missing 110',
  'listed one two',
  'later 0',
  'changed 114 1',
  'root Sync Bridge',
  '',
]

// Generated clients run in their own language, because their code is not ours.
describe('openapi-typescript', () => {
  const script = `
import createClient from 'openapi-fetch'
import type { paths } from './api.ts'

const { BRIDGE_URL: baseUrl = '', TOKEN, KEY_ID = '', BUCKET: bucket_id = '' } = process.env
const { GET, PUT, POST } = createClient<paths>({ baseUrl, headers: { Authorization: \`Bearer \${TOKEN}\`, 'X-KeyID': KEY_ID } })
const collection = { bucket_id, collection_id: 'bookmarks' }
const records = '/buckets/{bucket_id}/collections/{collection_id}/records' as const
const record = \`\${records}/{record_id}\` as const

const put = await PUT(record, { params: { path: { ...collection, record_id: 'one' } }, body: { data: { payload: '1' } } })
console.log('stored', put.data?.data.id)
// @ts-expect-error -- a payload is text
void (() => PUT(record, { params: { path: { ...collection, record_id: 'x' } }, body: { data: { payload: 1 } } }))
const path = \`/buckets/\${bucket_id}/collections/bookmarks/records/two\`
const batch = await POST('/batch', { body: { requests: [{ method: 'PUT', path, body: { data: { payload: '2' } } }, { path }] } })
console.log('batch', ...(batch.data?.responses.map(({ status }) => status) ?? []))
const read = await GET(record, { params: { path: { ...collection, record_id: 'one' } } })
console.log('read', read.data?.data.payload)
const missing = await GET(record, { params: { path: { ...collection, record_id: 'absent' } } })
console.log('missing', missing.error?.errno)
const list = await GET(records, { params: { path: collection, query: { _sort: 'oldest', _limit: 9, _since: 0 } } })
console.log('listed', ...(list.data?.data.map(({ id }) => id) ?? []))
const since = list.response.headers.get('ETag') ?? ''
const later = await GET(records, { params: { path: collection, query: { _since: since } } })
console.log('later', later.data?.data.length)
// @ts-expect-error -- a limit is a number
void (() => GET(records, { params: { path: collection, query: { _limit: 'many' } } }))
const header = { 'If-Match': '"1"' }
const { error } = await PUT(record, { params: { path: { ...collection, record_id: 'one' }, header }, body: { data: {} } })
if (error?.code === 412) console.log('changed', error.errno, error.details?.existing.payload)
console.log('root', (await GET('/')).data?.project_name)
`

  it('generates types for a client that lists, reads, writes and sends batches', async () => {
    await Bun.write(join(folder, 'api.ts'), astToString(await openapiTS(await Bun.file(document).text())))
    await Bun.write(join(folder, 'script.ts'), script)
    const options = { extends: '../../tsconfig.json', include: ['script.ts'] }
    await Bun.write(join(folder, 'tsconfig.json'), JSON.stringify(options))

    const check = await run([process.execPath, 'check'])
    const { output, code } = await run([process.execPath, 'script.ts'])

    expect([check.code, check.output]).toEqual([0, expect.stringContaining('No type errors')])
    expect(output.split('\n')).toEqual(printed)
    expect(code).toBe(0)
  })
})

describe('openapi-python-client', () => {
  const script = `
from os import environ
from client import AuthenticatedClient
from client.api.batch import batch
from client.api.records import get_record, list_records, put_record
from client.api.service import get_root
from client.models import BatchBody, ListRecordsSort, PreconditionFailed, RecordBody, RecordFields, SubRequest

bridge = AuthenticatedClient(environ["BRIDGE_URL"], environ["TOKEN"], headers={"X-KeyID": environ["KEY_ID"]})
bucket = environ["BUCKET"]
body = RecordBody(data=RecordFields(payload="1"))
print("stored", put_record.sync(bucket, "bookmarks", "one", client=bridge, body=body).data.id)
path = f"/buckets/{bucket}/collections/bookmarks/records/two"
put = SubRequest.from_dict({"method": "PUT", "path": path, "body": {"data": {"payload": "2"}}})
answer = batch.sync(client=bridge, body=BatchBody(requests=[put, SubRequest(path=path)]))
print("batch", *[one.status for one in answer.responses])
print("read", get_record.sync(bucket, "bookmarks", "one", client=bridge).data.payload)
print("missing", int(get_record.sync(bucket, "bookmarks", "absent", client=bridge).errno))
listed = list_records.sync_detailed(bucket, "bookmarks", client=bridge, field_sort=ListRecordsSort.OLDEST, field_limit=9, field_since=0)
print("listed", *[one.id for one in listed.parsed.data])
later = list_records.sync(bucket, "bookmarks", client=bridge, field_since=listed.headers["ETag"])
print("later", len(later.data))
changed = put_record.sync(bucket, "bookmarks", "one", client=bridge, body=RecordBody(data=RecordFields()), if_match='"1"')
if isinstance(changed, PreconditionFailed):
    print("changed", int(changed.errno), changed.details.existing.payload)
print("root", get_root.sync(client=bridge).project_name)
`

  it.skipIf('reason' in pythonGenerator)(
    `generates a client that lists, reads, writes and sends batches${why}`,
    async () => {
      const { path: python } = pythonGenerator as { path: string }
      await Bun.write(join(folder, 'script.py'), script)
      const command = ['-m', 'openapi_python_client', 'generate', '--path', document, '--meta', 'none']

      const made = await run([python, ...command, '--output-path', join(folder, 'client')])
      const { output, code } = await run([python, 'script.py'])

      expect([made.code, made.output]).toEqual([0, expect.not.stringContaining('Warning')])
      expect(output.split('\n')).toEqual(printed)
      expect(code).toBe(0)
    },
  )
})

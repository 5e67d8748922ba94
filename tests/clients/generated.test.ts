import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import openapiTS, { astToString } from 'openapi-typescript'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { runToEnd } from '../support/processes.ts'

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
    PATH: process.env.PATH!,
    BRIDGE_URL: `${bridge.url}/v1`,
    TOKEN: Authorization.replace('Bearer ', ''),
    KEY_ID: keyId,
    BUCKET: bridge.user.clientState,
  }
  const { output, errors, code } = await runToEnd(command, { cwd: folder, environment })
  return { code, output: output + errors }
}

/** The output of the client after putting two records, and reading and listing them. */
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

// A process, because the client's code is generated and checked as a project of its own.
describe('openapi-typescript', () => {
  const script = `
import createClient from 'openapi-fetch'
import type { components, paths } from './api.ts'

type Named = components['schemas']

const { BRIDGE_URL: baseUrl = '', TOKEN, KEY_ID = '', BUCKET: bucket_id = '' } = process.env
const { GET, PUT, POST } = createClient<paths>({ baseUrl, headers: { Authorization: \`Bearer \${TOKEN}\`, 'X-KeyID': KEY_ID } })
const collection = { bucket_id, collection_id: 'bookmarks' }
const records = '/buckets/{bucket_id}/collections/{collection_id}/records' as const
const record = \`\${records}/{record_id}\` as const

const data: Named['RecordFields'] = { payload: '1' }
const body: Named['RecordBody'] = { data }
const put = await PUT(record, { params: { path: { ...collection, record_id: 'one' } }, body })
console.log('stored', put.data?.data.id)
// @ts-expect-error -- a payload is text
void (() => PUT(record, { params: { path: { ...collection, record_id: 'x' } }, body: { data: { payload: 1 } } }))
const path = \`/buckets/\${bucket_id}/collections/bookmarks/records/two\`
const second: Named['SubRequest'] = { method: 'PUT', path, body: { data: { payload: '2' } } }
const requests: Named['BatchBody'] = { requests: [second, { path }] }
const batch = await POST('/batch', { body: requests })
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
if (error?.code === 412) {
  const failed: Named['PreconditionFailed'] = error
  console.log('changed', failed.errno, failed.details?.existing.payload)
}
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

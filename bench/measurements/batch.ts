import { toEndpoint } from '../../src/domain/credentials.ts'
import { hawkHeader, storageUrl } from '../../src/upstream/request.ts'
import { cores, start } from '../processes.ts'
import { interleave, median, ratio } from '../statistics.ts'
import { startBridge } from '../subjects.ts'

export interface BatchTimes {
  name: string
  ms: number
  ratioToBatch: number
}

const writes = 25

/** Times conditional writes of 25 records: as one batch, one by one, and one by one without the bridge. */
export async function measureBatch(bridgeExecutable: string, rounds: number): Promise<BatchTimes[]> {
  const sandbox = start([process.execPath, `${import.meta.dir}/../sandbox.ts`], {
    core: cores.load,
    stdout: 'pipe',
  })
  const { value } = await (sandbox.stdout as ReadableStream<Uint8Array>).getReader().read()
  const access = JSON.parse(Buffer.from(value!).toString()) as Record<string, string>
  const settings = { record_tabs_put_enabled: 'true' }
  const { origin } = await startBridge(bridgeExecutable, access.tokenServerUrl!, { settings })
  const client = { Authorization: access.authorization!, 'X-KeyID': access.keyId! }
  const credentials = (await askJson(`${access.tokenServerUrl}/1.0/sync/1.5`, { headers: client })) as Record<
    'id' | 'key' | 'api_endpoint',
    string
  >
  const bucket = `/buckets/${access.clientState}/collections/tabs/records`
  const json = { ...client, 'Content-Type': 'application/json' }
  let round = 0

  const batch = async () => {
    const requests = ids().map((id) => ({ method: 'PUT', path: `/v1${bucket}/${id}`, body: record }))
    const body = JSON.stringify({ defaults: { headers: { 'If-None-Match': '*' } }, requests })
    const { responses } = (await askJson(`${origin}/v1/batch`, { method: 'POST', headers: json, body })) as {
      responses: { status: number }[]
    }
    if (responses.some(({ status }) => status !== 200)) throw new Error('A write of the batch failed')
  }
  const oneByOne = async () => {
    for (const id of ids()) {
      const headers = { ...json, 'If-None-Match': '*' }
      await askJson(`${origin}/v1${bucket}/${id}`, { method: 'PUT', headers, body: JSON.stringify(record) })
    }
  }
  const directly = async () => {
    const { id: hawkId, key: hawkKey, api_endpoint } = credentials
    const endpoint = toEndpoint(new URL(api_endpoint))
    for (const id of ids()) {
      const { href, target } = storageUrl(endpoint, ['storage', 'tabs', id])
      const nowSeconds = Math.floor(Date.now() / 1000)
      const signing = { hawkId, hawkKey, endpoint }
      const Authorization = hawkHeader(signing, 'PUT', target, nowSeconds, crypto.randomUUID())
      const headers = { Authorization, 'Content-Type': 'application/json', 'X-If-Unmodified-Since': '0' }
      await askJson(href, { method: 'PUT', headers, body: JSON.stringify(record.data) })
    }
  }

  const ways = [
    { name: `one batch of ${writes}`, run: batch },
    { name: `${writes} one by one through the bridge`, run: oneByOne },
    { name: `${writes} one by one, storage directly`, run: directly },
  ]
  await batch()
  const times = await interleave(ways, rounds, async ({ run }) => {
    const startedAtMs = performance.now()
    await run()
    return performance.now() - startedAtMs
  })
  return ways.map(({ name }, index) => ({
    name,
    ms: median(times[index]!),
    ratioToBatch: ratio(times[0]!, times[index]!),
  }))

  function ids(): string[] {
    round += 1
    return Array.from({ length: writes }, (_, index) => `record-${round}-${index}`)
  }
}

const record = { data: { payload: 'x'.repeat(1400) } }

async function askJson(url: string, init: RequestInit): Promise<unknown> {
  const response = await fetch(url, init)
  const text = await response.text()
  if (!response.ok) throw new Error(`Cannot use ${new URL(url).pathname}: ${response.status} ${text}`)
  return JSON.parse(text)
}

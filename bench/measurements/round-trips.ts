import { makeCertificates } from '../../tests/support/certificates.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { lead } from '../far.ts'
import { cores, freePort, stop } from '../processes.ts'
import { median } from '../statistics.ts'
import { startBridge, startNginx } from '../subjects.ts'

/** The round trips of an operation: its duration divided by that of one round trip. */
export interface RoundTrips {
  name: string
  count: number
}

const roundTripMs = 100
const collections = ['tabs', 'history', 'forms']
const data = { payload: 'x'.repeat(300) }

interface Client {
  user: SandboxUser
  ask(method: string, path: string, body?: unknown): Promise<void>
  batch(requests: { method: string; path: string; body?: unknown }[]): Promise<void>
}

interface Operation {
  name: string
  /** Prepared requests are sent first, and not measured. */
  prepare?(client: Client, round: number): Promise<void>
  run(client: Client, round: number): Promise<void>
}

/** The path of a record in the user's bucket. */
function at(collection: string, id = ''): string {
  return `/collections/${collection}/records${id && `/${id}`}`
}

function puts(count: number, round: number, names = ['tabs']) {
  return Array.from({ length: count }, (_, index) => ({
    method: 'PUT',
    path: at(names[index % names.length]!, `put-${round}-${index}`),
    body: { data },
  }))
}

function deletions(count: number, round: number, names = ['tabs']) {
  return Array.from({ length: count }, (_, index) => ({
    method: 'DELETE',
    path: at(names[index % names.length]!, `gone-${round}-${index}`),
  }))
}

const toDelete =
  (count: number, names?: string[]) =>
  (client: Client, round: number): Promise<void> =>
    client.batch(deletions(count, round, names).map(({ path }) => ({ method: 'PUT', path, body: { data } })))

const operations: Operation[] = [
  { name: 'GET of a record', run: (client) => client.ask('GET', at('tabs', 'record')) },
  { name: 'list', run: (client) => client.ask('GET', at('tabs')) },
  { name: '/collections', run: (client) => client.ask('GET', '/collections') },
  {
    name: 'batch of 12 reads in three collections',
    run: (client) =>
      client.batch(
        puts(12, 0, collections).map(({ path }, index) => ({
          method: 'GET',
          path: index < 3 ? at(collections[index]!) : path,
        })),
      ),
  },
  { name: 'PUT over a record', run: (client) => client.ask('PUT', at('tabs', 'record'), { data }) },
  {
    name: 'PUT of a new record',
    run: (client, round) => client.ask('PUT', at('tabs', `new-${round}`), { data }),
  },
  {
    name: 'DELETE',
    prepare: toDelete(1),
    run: (client, round) => client.ask('DELETE', deletions(1, round)[0]!.path),
  },
  { name: 'batch of 25 PUTs', run: (client, round) => client.batch(puts(25, round)) },
  {
    name: '12 PUTs and 12 DELETEs in one collection',
    prepare: toDelete(12),
    run: (client, round) => client.batch([...puts(12, round), ...deletions(12, round)]),
  },
  {
    name: '24 PUTs in three collections',
    run: (client, round) => client.batch(puts(24, round, collections)),
  },
  {
    name: '12 PUTs and 12 DELETEs in three collections',
    prepare: toDelete(12, collections),
    run: (client, round) =>
      client.batch([...puts(12, round, collections), ...deletions(12, round, collections)]),
  },
]

/** The sandbox behind nginx with TLS, at the end of a slow connection. */
export async function measureRoundTrips(
  executable: string,
  folder: string,
  rounds: number,
): Promise<RoundTrips[]> {
  const sandbox = await startSandbox()
  const certificates = await makeCertificates(folder)
  const ports = { plain: freePort(), tls: freePort() }
  const server = (port: number, options: string) => `server { listen 127.0.0.1:${port} ${options};
    location /1.0/ { proxy_pass ${sandbox.tokenServerUrl}; }
    location / { proxy_pass ${sandbox.storageUrl}; } }`
  const nginx = startNginx(folder, 'round-trips', cores.load, [
    'client_max_body_size 10m; proxy_http_version 1.1; proxy_set_header Host $http_host;',
    'proxy_set_header X-Forwarded-Proto $scheme;',
    `ssl_certificate ${certificates.certificatePath}; ssl_certificate_key ${certificates.keyPath};`,
    'ssl_protocols TLSv1.2 TLSv1.3;',
    server(ports.plain, ''),
    server(ports.tls, 'ssl'),
  ])
  const far = await lead(ports, certificates.caPath, [])
  await far.setRoundTrip(roundTripMs)
  const writable = Object.fromEntries(
    collections.flatMap((name) =>
      ['put', 'delete'].map((verb) => [`record_${name}_${verb}_enabled`, 'true']),
    ),
  )
  const { origin, caPath } = far.tls
  sandbox.switches.nodeUrl = origin
  const settings = { ...writable, certificate_ca_bundle: caPath! }
  const bridge = await startBridge(executable, origin, { settings })
  const client = clientOf(bridge.origin, sandbox.addUser('somebody'))
  // Connections are open, and no collection is new.
  await client.batch(puts(12, 0, collections))
  await client.ask('PUT', at('tabs', 'record'), { data })
  const figures: RoundTrips[] = []
  for (const operation of operations) {
    const ms = await timeOf(operation, client, rounds)
    figures.push({ name: operation.name, count: ms / roundTripMs })
  }
  await stop(bridge.process)
  await stop(nginx)
  await sandbox.stop()
  return figures
}

async function timeOf({ prepare, run }: Operation, client: Client, rounds: number): Promise<number> {
  const times: number[] = []
  for (let round = 1; round <= rounds; round += 1) {
    await prepare?.(client, round)
    const startedAtMs = performance.now()
    await run(client, round)
    times.push(performance.now() - startedAtMs)
  }
  return median(times)
}

function clientOf(origin: string, user: SandboxUser): Client {
  const bucket = `/v1/buckets/${user.clientState}`
  const headers = {
    Authorization: `Bearer ${user.bearerToken()}`,
    'X-KeyID': user.keyId,
    'Content-Type': 'application/json',
  }
  const send = async (method: string, url: string, body?: unknown) => {
    const response = await fetch(url, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`Cannot ${method} ${url}: ${response.status} ${text}`)
    return text
  }
  return {
    user,
    async ask(method, path, body) {
      await send(method, origin + bucket + path, body)
    },
    async batch(requests) {
      const all = requests.map((request) => ({ ...request, path: bucket + request.path }))
      const { responses } = JSON.parse(await send('POST', `${origin}/v1/batch`, { requests: all })) as {
        responses: { status: number }[]
      }
      if (responses.some(({ status }) => status >= 300)) throw new Error('A request of a batch failed')
    },
  }
}

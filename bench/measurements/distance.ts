import { load, percentiles } from '../load.ts'
import { stop } from '../processes.ts'
import { interleave, median, ratio } from '../statistics.ts'
import { startBridge, startPeer, startStraight, type Server, type Subject } from '../subjects.ts'
import type { Far } from '../far.ts'

/** Many clients of many users, each requesting one record. */
export interface Crowd {
  name: string
  clients: number
  users: NonNullable<Subject['users']>
}

export const crowds: Crowd[] = [
  { name: '256 clients of 64 users', clients: 256, users: 64 },
  { name: '1,000 clients of 250 users', clients: 1000, users: 250 },
  { name: '256 clients, another user with each request', clients: 256, users: 'each' },
]

/** The results of one server under load. */
export interface AtADistance {
  crowd: string
  name: string
  /** Successful requests only. */
  requestsPerSecond: number
  /** Share of requests that were rejected or failed. */
  refused: number
  p50: number
  p99: number
  cpuMicroseconds: number
  /** Requests per second, relative to each peer. */
  ratioTo: Record<string, number>
}

export interface DistanceOptions {
  rounds: number
  seconds: number
  warmUpSeconds: number
  script: string
  peers: { passThrough: string; straight: string }
}

export const distancePeers = {
  /** As many concurrent calls as the bridge allows. */
  passThrough: 'pass-through',
  /** The runtime's default. */
  with256Calls: 'pass-through, 256 calls',
  straight: 'straight',
}
export const bridgeName = 'Sync Bridge'

/** The bridge and its peers over TLS, with 50 ms to the token server and the storage. */
export async function measureDistance(
  executable: string,
  far: Far,
  options: DistanceOptions,
): Promise<AtADistance[]> {
  const { tls } = far
  const { peers } = options
  await far.setRoundTrip(0)
  const servers = [
    await startPeer(distancePeers.passThrough, peers.passThrough, tls),
    await startPeer(distancePeers.with256Calls, peers.passThrough, tls, {
      BUN_CONFIG_MAX_HTTP_REQUESTS: '256',
    }),
    await startStraight(peers.straight, tls, distancePeers.straight),
    await startBridge(executable, tls.origin, {
      name: bridgeName,
      settings: { certificate_ca_bundle: tls.caPath! },
    }),
  ]
  for (const server of servers)
    await load(server.of('record'), { ...options, seconds: options.warmUpSeconds, connections: 64 })
  await far.setRoundTrip(50)
  const figures: AtADistance[] = []
  for (const crowd of crowds) {
    // With fewer clients, they are the same.
    const measured = servers.filter((_, index) => crowd.clients > 256 || index !== 1)
    figures.push(...(await measureCrowd(measured, crowd, options)))
  }
  await Promise.all(servers.map((server) => stop(server.process)))
  return figures
}

async function measureCrowd(
  servers: Server[],
  { name: crowd, clients, users }: Crowd,
  options: DistanceOptions,
): Promise<AtADistance[]> {
  const subjects = servers.map((server) => ({ ...server.of('record'), users }))
  const runs = await interleave(subjects, options.rounds, (subject) =>
    load(subject, { ...options, connections: clients }),
  )
  const rates = runs.map((own) =>
    own.map(
      ({ requests, failures, requestsPerSecond }) =>
        requestsPerSecond * Math.max(0, 1 - failures / Math.max(1, requests)),
    ),
  )
  return subjects.map(({ name }, index) => {
    const own = runs[index]!
    const at = (percentile: number) =>
      median(own.map(({ latencies }) => latencies[percentiles.indexOf(percentile)]!))
    const sum = (key: 'requests' | 'failures') => own.reduce((total, run) => total + run[key], 0)
    return {
      crowd,
      name,
      requestsPerSecond: median(rates[index]!),
      refused: sum('failures') / Math.max(1, sum('requests')),
      p50: at(50),
      p99: at(99),
      cpuMicroseconds: median(own.map((run) => run.cpuMicroseconds)),
      ratioTo: Object.fromEntries(
        subjects.map((peer, place) => [peer.name, ratio(rates[index]!, rates[place]!)]),
      ),
    }
  })
}

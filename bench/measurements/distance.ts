import { availableParallelism } from 'node:os'
import { load, percentiles, type Run } from '../load.ts'
import { busyMicroseconds, cpuMicroseconds, stop } from '../processes.ts'
import { interleave, median, ratio } from '../statistics.ts'
import {
  startBridge,
  startNginxProxy,
  startPeer,
  startStraight,
  type Server,
  type Subject,
  type Upstream,
} from '../subjects.ts'
import type { Far } from '../far.ts'

/** Who asks: one user, 64 in turn, or another one with each request, for whom the token server has to be asked first. */
export const crowds = ['one user', '64 users', 'another user each time'] as const
export type Crowd = (typeof crowds)[number]

/** Requests for one record, and what it is compared with. */
export interface AtADistance {
  roundTripMs: number
  clients: number
  crowd: Crowd
  name: string
  /** Only those that were answered. */
  requestsPerSecond: number
  /** Share of the requests that were refused or failed. */
  refused: number
  p50: number
  p99: number
  cpuMicroseconds: number
  /** Requests per second, to those of the peer. */
  ratio: number
  peer: string
  /** How much of their core load, wire and storage took; near 1 they are what was measured. */
  loadShare: number
  /** How much of the machine others took meanwhile; much makes all of this worth little. */
  othersShare: number
}

export interface DistanceOptions {
  roundTrips: number[]
  clients: number[]
  crowds: readonly Crowd[]
  rounds: number
  seconds: number
  warmUpSeconds: number
  script: string
  folder: string
  peers: { passThrough: string; straight: string }
}

/** A server beside its peers. */
interface Rival {
  name: string
  /** With whom it is compared. */
  peer: string
  crowds: readonly Crowd[]
  /** The fewest clients by whom it is asked. */
  fewestClients?: number
  start(name: string): Promise<Server>
}
type Started = Rival & { server: Server }

const [one, , each] = crowds
const bare = { plain: 'pass-through', http2: 'pass-through, HTTP/2' }
/** How a peer is called that makes as many calls at a time as the runtime does when nobody tells it. */
export const with256Calls = (peer: string) => `${peer}, 256 calls`

function rivalsOf(executable: string, far: Far, { folder, peers }: DistanceOptions): Rival[] {
  const { plain, http2, http1 } = far
  const peer = (upstream: Upstream) => (name: string) => startPeer(name, peers.passThrough, upstream)
  const straight = (upstream: Upstream) => (name: string) => startStraight(peers.straight, upstream, name)
  const bridge =
    ({ origin, tls }: Upstream) =>
    (name: string) =>
      startBridge(executable, origin, { name, settings: tls && { certificate_ca_bundle: tls.caPath } })
  const few = [one, each] as const
  // With fewer clients that makes no difference.
  const unset = { crowds: [one], fewestClients: 1000 } as const
  const as256 = (upstream: Upstream) => (name: string) => startPeer(name, peers.passThrough, upstream, {})
  return [
    { name: 'nginx', peer: bare.plain, crowds: [one], start: () => startNginxProxy(folder, plain.origin) },
    { name: bare.plain, peer: bare.plain, crowds: few, start: peer(plain) },
    { name: bare.http2, peer: bare.plain, crowds: few, start: peer(http2) },
    { name: with256Calls(bare.plain), peer: bare.plain, ...unset, start: as256(plain) },
    { name: with256Calls(bare.http2), peer: bare.http2, ...unset, start: as256(http2) },
    { name: 'straight', peer: bare.plain, crowds, start: straight(plain) },
    { name: 'straight, HTTP/2', peer: bare.http2, crowds, start: straight(http2) },
    { name: 'Sync Bridge', peer: bare.plain, crowds, start: bridge(plain) },
    { name: 'Sync Bridge, HTTP/2', peer: bare.http2, crowds, start: bridge(http2) },
    { name: 'Sync Bridge, TLS with HTTP/1.1', peer: bare.plain, crowds: [one], start: bridge(http1) },
  ]
}

/** Starts them and lets their compilers work, beside the storage. */
async function startAll(rivals: Rival[], far: Far, options: DistanceOptions): Promise<Started[]> {
  await far.setRoundTrip(0)
  const started: Started[] = []
  for (const rival of rivals) {
    const server = await rival.start(rival.name)
    await load(server.of('record'), { ...options, seconds: options.warmUpSeconds, connections: 64 })
    started.push({ ...rival, server })
  }
  return started
}

/** The bridge and its peers, over a wire of each length, asked by each number of clients. */
export async function measureDistance(
  executable: string,
  far: Far,
  options: DistanceOptions,
): Promise<AtADistance[]> {
  const figures: AtADistance[] = []
  const rivals = await startAll(rivalsOf(executable, far, options), far, options)
  for (const roundTripMs of options.roundTrips) {
    await far.setRoundTrip(roundTripMs)
    for (const clients of options.clients) {
      for (const crowd of options.crowds) {
        const asked = rivals.filter(
          ({ crowds: own, fewestClients = 0 }) => own.includes(crowd) && clients >= fewestClients,
        )
        figures.push(...(await measureCrowd(asked, { roundTripMs, clients, crowd }, far, options)))
      }
    }
  }
  await Promise.all(rivals.map(({ server }) => stop(server.process)))
  return figures
}

/** What a request costs beside `straight`, asked in the same seconds on the same core: the pace of the machine does not matter. */
export interface Cost {
  roundTripMs: number
  clients: number
  crowd: Crowd
  protocol: 'plain HTTP' | 'HTTP/2'
  straightMicroseconds: number
  bridgeMicroseconds: number
  /** The median of all slices. */
  ratio: number
}

const costSteps: Pick<Cost, 'roundTripMs' | 'clients' | 'crowd'>[] = [
  { roundTripMs: 0, clients: 32, crowd: one },
  { roundTripMs: 20, clients: 64, crowd: one },
  { roundTripMs: 50, clients: 64, crowd: one },
  { roundTripMs: 50, clients: 256, crowd: one },
  { roundTripMs: 50, clients: 256, crowd: each },
  { roundTripMs: 100, clients: 64, crowd: one },
]

/** The bridge and `straight` over both protocols, four at once. */
export async function measureCosts(
  executable: string,
  far: Far,
  options: DistanceOptions & { slices: number },
): Promise<Cost[]> {
  const wanted = rivalsOf(executable, far, options).filter(({ crowds }) => crowds.includes('64 users'))
  const started = await startAll(wanted, far, options)
  const costs: Cost[] = []
  for (const step of costSteps) {
    await far.setRoundTrip(step.roundTripMs)
    const askAll = (seconds: number) =>
      Promise.all(
        started.map(({ server }) => {
          const subject = { ...server.of('record'), users: usersOf(step.crowd) }
          return load(subject, { ...options, connections: step.clients, seconds })
        }),
      )
    // Each has a quarter of the core.
    await askAll(4 * options.warmUpSeconds)
    const slices: number[][] = []
    for (let slice = 0; slice < options.slices; slice += 1) {
      slices.push((await askAll(3)).map((run) => run.cpuMicroseconds))
    }
    const spentBy = (name: string) => {
      const index = started.findIndex((rival) => rival.name === name)
      return slices.map((spent) => spent[index]!)
    }
    for (const [protocol, suffix] of [
      ['plain HTTP', ''],
      ['HTTP/2', ', HTTP/2'],
    ] as const) {
      const [straight, bridge] = [spentBy(`straight${suffix}`), spentBy(`Sync Bridge${suffix}`)]
      costs.push({
        ...step,
        protocol,
        straightMicroseconds: median(straight),
        bridgeMicroseconds: median(bridge),
        ratio: ratio(bridge, straight),
      })
    }
  }
  await Promise.all(started.map(({ server }) => stop(server.process)))
  return costs
}

/** How much longer the slowest hundredth takes where four fifths of what a server can do are asked of it. */
export interface Spread {
  name: string
  roundTripMs: number
  clients: number
  /** What was asked, of what it can do. */
  share: number
  p50: number
  p99: number
}

/** As many clients as can ask it most, who pause between requests. */
export async function measureSpread(
  executable: string,
  far: Far,
  options: DistanceOptions,
): Promise<Spread[]> {
  const [roundTripMs, connections] = [50, options.clients.at(-1)!]
  const wanted = rivalsOf(executable, far, options).filter((rival) => rival.crowds.includes('64 users'))
  const rivals = await startAll(wanted, far, options)
  await far.setRoundTrip(roundTripMs)
  const runs = await interleave(rivals, options.rounds, async ({ server }) => {
    const subject: Subject = { ...server.of('record'), users: 64 }
    const most = answeredPerSecond(await load(subject, { ...options, connections }))
    // A client asks again after an answer and a pause, so that all of them ask so many in a second.
    const cycleMs = connections / ((0.8 * most) / 1000)
    // In a short run the first requests, which open the connections, are more than a hundredth.
    const seconds = Math.max(12, options.seconds)
    const run = await load(subject, {
      ...options,
      seconds,
      connections,
      pauseMs: cycleMs - roundTripMs * 1.1,
    })
    const at = (percentile: number) => run.latencies[percentiles.indexOf(percentile)]!
    return { share: answeredPerSecond(run) / most, p50: at(50), p99: at(99) }
  })
  const spreads = rivals.map(({ name }, index): Spread => {
    // The round in the middle, whole.
    const own = runs[index]!.toSorted((a, b) => a.p99 / a.p50 - b.p99 / b.p50)
    return { name, roundTripMs, clients: connections, ...own[own.length >> 1]! }
  })
  await Promise.all(rivals.map(({ server }) => stop(server.process)))
  return spreads
}

function usersOf(crowd: Crowd): Subject['users'] {
  return ({ 'one user': undefined, '64 users': 64, 'another user each time': 'each' } as const)[crowd]
}

async function measureCrowd(
  rivals: Started[],
  asked: Pick<AtADistance, 'roundTripMs' | 'clients' | 'crowd'>,
  far: Far,
  options: DistanceOptions,
): Promise<AtADistance[]> {
  const users = usersOf(asked.crowd)
  const runs = await interleave(rivals, options.rounds, ({ server }) =>
    loadFrom(far, { ...server.of('record'), users }, { ...options, connections: asked.clients }),
  )
  const rates = runs.map((own) => own.map(answeredPerSecond))
  // With 64 users, pass-through is not asked.
  const peerOf = ({ peer }: Rival) => {
    const index = rivals.findIndex(({ name }) => name === peer)
    return index === -1
      ? rivals.findIndex(({ name }) => name === peer.replace('pass-through', 'straight'))
      : index
  }
  return rivals.map((rival, index) => {
    const own = runs[index]!
    const at = (percentile: number) =>
      median(own.map(({ latencies }) => latencies[percentiles.indexOf(percentile)]!))
    const sum = (key: 'requests' | 'failures') => own.reduce((total, run) => total + run[key], 0)
    return {
      ...asked,
      name: rival.name,
      requestsPerSecond: median(rates[index]!),
      refused: sum('failures') / Math.max(1, sum('requests')),
      p50: at(50),
      p99: at(99),
      cpuMicroseconds: median(own.map((run) => run.cpuMicroseconds)),
      ratio: ratio(rates[index]!, rates[peerOf(rival)]!),
      peer: rivals[peerOf(rival)]!.name,
      loadShare: median(own.map((run) => run.loadShare)),
      othersShare: median(own.map((run) => run.othersShare)),
    }
  })
}

async function loadFrom(
  far: Far,
  subject: Subject,
  options: Parameters<typeof load>[1],
): Promise<Run & Pick<AtADistance, 'loadShare' | 'othersShare'>> {
  const [busyBefore, before] = [busyMicroseconds(), cpuMicroseconds(far.pids)]
  const run = await load(subject, options)
  const loading = cpuMicroseconds(far.pids) - before + run.loadMicroseconds
  const others = busyMicroseconds() - busyBefore - loading - run.cpuMicroseconds * run.requests
  const core = options.seconds * 1e6
  return {
    ...run,
    loadShare: loading / core,
    othersShare: Math.max(0, others / (availableParallelism() * core)),
  }
}

function answeredPerSecond({ requests, failures, requestsPerSecond }: Run): number {
  return requestsPerSecond * Math.max(0, 1 - failures / Math.max(1, requests))
}

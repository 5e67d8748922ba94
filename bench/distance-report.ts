import { table } from './table.ts'
import type { Target } from './targets.ts'
import { with256Calls, type AtADistance, type Cost, type Spread } from './measurements/distance.ts'
import type { RoundTrips } from './measurements/round-trips.ts'

/** Round trips of each operation. */
export function roundTripsTable(figures: RoundTrips[]): string {
  return table(
    ['round trips', 'HTTP/2', 'HTTP/1.1'],
    figures.map(({ name, http2, http1 }) => [name, http2.toFixed(2), http1.toFixed(2)]),
  )
}

/** One table for each round trip, number of clients and crowd. */
export function distanceTables(figures: AtADistance[]): string {
  const groups = Map.groupBy(
    figures,
    ({ roundTripMs, clients, crowd }) => `${roundTripMs} ms, ${clients} clients, ${crowd}`,
  )
  return [...groups]
    .map(([title, rows]) => {
      const [{ roundTripMs, clients, crowd }] = rows as [AtADistance]
      const calls = crowd === 'another user each time' ? 2 : 1
      const most = Math.round((clients * 1000) / roundTripMs / calls)
      const head = [
        'requests/s',
        'refused',
        'median',
        '99 %',
        'processor time',
        'to its peer',
        'load',
        'others',
      ]
      return `${title}; at most ${most.toLocaleString('en')}/s can be\n\n${table(['', ...head], rows.map(rowOf))}`
    })
    .join('\n\n')
}

function rowOf(figure: AtADistance): string[] {
  return [
    figure.name,
    Math.round(figure.requestsPerSecond).toLocaleString('en'),
    `${(figure.refused * 100).toFixed(figure.refused > 0 ? 1 : 0)} %`,
    `${figure.p50.toFixed(0)} ms`,
    `${figure.p99.toFixed(0)} ms`,
    `${figure.cpuMicroseconds.toFixed(0)} µs`,
    `${figure.ratio.toFixed(2)} of ${figure.peer}`,
    `${(figure.loadShare * 100).toFixed(0)} %`,
    `${(figure.othersShare * 100).toFixed(0)} %`,
  ]
}

/** What a request costs beside `straight`. */
export function costsTable(figures: Cost[]): string {
  return table(
    ['processor time for each request', 'straight', 'Sync Bridge', 'ratio'],
    figures.map((cost) => [
      describeCost(cost),
      `${cost.straightMicroseconds.toFixed(0)} µs`,
      `${cost.bridgeMicroseconds.toFixed(0)} µs`,
      cost.ratio.toFixed(2),
    ]),
  )
}

function describeCost({ roundTripMs, clients, crowd, protocol }: Cost): string {
  return `${roundTripMs} ms, ${clients} clients, ${crowd}, ${protocol}`
}

/** The slowest hundredth at four fifths of what can be. */
export function spreadTable(figures: Spread[]): string {
  return table(
    ['', 'asked, of the most', 'median', '99 %', 'ratio'],
    figures.map(({ name, share, p50, p99 }) => [
      name,
      `${(share * 100).toFixed(0)} %`,
      `${p50.toFixed(0)} ms`,
      `${p99.toFixed(0)} ms`,
      (p99 / p50).toFixed(2),
    ]),
  )
}

const mostRoundTrips: Record<string, number> = {
  'GET of a record': 1.2,
  list: 1.2,
  '/collections': 1.2,
  'batch of 12 reads in three collections': 1.2,
  'PUT over a record': 2.4,
  'PUT of a new record': 2.4,
  DELETE: 2.4,
  'batch of 25 PUTs': 2.4,
  '12 PUTs and 12 DELETEs in one collection': 3.6,
  '24 PUTs in three collections': 4.9,
  '12 PUTs and 12 DELETEs in three collections': 4.9,
}

/** What is expected at a distance, as far as it was measured. */
export function distanceTargets(measured: {
  roundTrips: RoundTrips[]
  distance: AtADistance[]
  costs: Cost[]
  spread: Spread[]
}): Target[] {
  const { roundTrips, distance, costs, spread } = measured
  const target = (what: string, figure: number, bound: Target['bound'], limit: number): Target => {
    return { what, was: '', figure, bound, limit, unit: '' }
  }
  const ours = distance.filter(({ name }) => name === 'Sync Bridge' || name === 'Sync Bridge, HTTP/2')
  const rows = ours.flatMap((figure) => {
    const { name, roundTripMs, clients, crowd, ratio, peer, refused } = figure
    const what = `${roundTripMs} ms, ${clients} clients, ${crowd}, ${name}`
    const isEach = crowd === 'another user each time'
    const isJudged = roundTripMs === 50 && (isEach ? clients === 256 : clients >= 256 && crowd === 'one user')
    if (!isJudged) return []
    const unset = distance.find(
      (other) =>
        other.name === with256Calls(peer) && other.roundTripMs === roundTripMs && other.clients === clients,
    )
    const toUnset = unset && figure.requestsPerSecond / unset.requestsPerSecond
    return [
      target(`${what}: requests/s against ${peer}`, ratio, 'at least', isEach ? 0.375 : 0.9),
      ...(toUnset ? [target(`${what}: requests/s against ${unset.name}`, toUnset, 'at least', 0.9)] : []),
      target(`${what}: share refused`, refused, 'at most', 0),
    ]
  })
  return [
    ...roundTrips.map(({ name, http2 }) =>
      target(`round trips: ${name}`, http2, 'at most', mostRoundTrips[name]!),
    ),
    ...rows,
    ...costs.map((cost) =>
      target(
        `${describeCost(cost)}: processor time against straight`,
        cost.ratio,
        'at most',
        cost.crowd === 'another user each time' ? 1.3 : 1.15,
      ),
    ),
    ...spread
      .filter(({ name }) => name.startsWith('Sync Bridge'))
      .map(({ name, p50, p99 }) =>
        target(`four fifths of the most at 50 ms, ${name}: p99 against p50`, p99 / p50, 'at most', 1.5),
      ),
  ]
}

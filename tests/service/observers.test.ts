import { describe, expect, it } from 'bun:test'

import { expositionType, mergeFamilies, renderFamilies } from '../../src/observability/metric-families.ts'
import { commit, version } from '../../src/version.ts'
import { observed } from './observed.ts'

const build = `sync_bridge_build_info{version="${version}",commit="${commit}"}`

describe('createObservers', () => {
  it('counts requests by route, method and status, and their duration by route', () => {
    const bridge = observed()

    bridge.answered('records', 'GET', 200, 7)
    bridge.answered('records', 'GET', 200, 40)
    bridge.answered('records', 'HEAD', 304, 99_000)
    bridge.answered('record', 'PUT', 412, 1)

    const told = bridge.figures()
    expect(told).toMatchObject({
      'sync_bridge_requests_total{route="records",method="GET",status="200"}': 2,
      'sync_bridge_requests_total{route="records",method="HEAD",status="304"}': 1,
      'sync_bridge_requests_total{route="record",method="PUT",status="412"}': 1,
      'sync_bridge_request_duration_seconds_bucket{route="records",le="0.005"}': 0,
      'sync_bridge_request_duration_seconds_bucket{route="records",le="0.01"}': 1,
      'sync_bridge_request_duration_seconds_bucket{route="records",le="0.05"}': 2,
      'sync_bridge_request_duration_seconds_bucket{route="records",le="30"}': 2,
      'sync_bridge_request_duration_seconds_bucket{route="records",le="+Inf"}': 3,
      'sync_bridge_request_duration_seconds_count{route="records"}': 3,
      'sync_bridge_request_duration_seconds_bucket{route="record",le="0.001"}': 1,
    })
    expect(told['sync_bridge_request_duration_seconds_sum{route="records"}']).toBeCloseTo(99.047)
  })

  it('logs errors of Redis once for each reason', () => {
    const bridge = observed()

    bridge.redisTrouble('unreachable', 'ECONNREFUSED')
    for (const code of ['OOM', 'OOM', 'READONLY']) bridge.redisTrouble('refused', code)

    expect(bridge.lines.map((line) => JSON.parse(line).code)).toEqual(['ECONNREFUSED', 'OOM'])
  })

  it('combines unknown methods into one', () => {
    const bridge = observed()

    for (const method of ['PROPFIND', 'PURGE', 'X"}']) bridge.answered('record', method, 405, 1)

    expect(bridge.figures()).toMatchObject({
      'sync_bridge_requests_total{route="record",method="other",status="405"}': 3,
    })
  })

  it('counts calls to upstream by status or failure', () => {
    const bridge = observed()

    bridge.called('GET', 200, null, 20)
    bridge.called('GET', null, 'timeout', 20_000)
    bridge.called('GET', 302, 'bad-response', 3)
    bridge.called('GET', null, null, 5, 'token')

    expect(bridge.figures()).toMatchObject({
      'sync_bridge_upstream_calls_total{target="storage",method="GET",result="200"}': 1,
      'sync_bridge_upstream_calls_total{target="storage",method="GET",result="timeout"}': 1,
      'sync_bridge_upstream_calls_total{target="storage",method="GET",result="bad-response"}': 1,
      'sync_bridge_upstream_calls_total{target="token",method="GET",result="aborted"}': 1,
      'sync_bridge_upstream_duration_seconds_count{target="storage"}': 3,
    })
  })

  it('counts all other events, and shows counters used by alerts before their first event', () => {
    const bridge = observed()

    bridge.credentials('hit-local')
    bridge.credentials('hit-local')
    bridge.redisTrouble('timeout', null)
    bridge.transaction({ kind: 'partial', collections: [] })
    bridge.batch(25)
    bridge.rejected('limit')
    bridge.eventLoopLag(3)
    bridge.eventLoopLag(120)

    expect(bridge.figures()).toMatchObject({
      'sync_bridge_credentials_total{event="hit-local"}': 2,
      'sync_bridge_redis_errors_total{reason="timeout"}': 1,
      'sync_bridge_transactions_total{event="partial"}': 1,
      'sync_bridge_transactions_total{event="unknown"}': 0,
      'sync_bridge_batch_requests_bucket{le="10"}': 0,
      'sync_bridge_batch_requests_bucket{le="25"}': 1,
      sync_bridge_batch_requests_sum: 25,
      'sync_bridge_requests_rejected_total{reason="limit"}': 1,
      'sync_bridge_event_loop_lag_seconds_bucket{le="0.005"}': 1,
      'sync_bridge_event_loop_lag_seconds_bucket{le="0.25"}': 2,
      sync_bridge_defects_total: 0,
      sync_bridge_lists_broken_total: 0,
    })
  })

  it('reads the state of the process on demand', () => {
    const usage = { cpuMs: () => 1500, residentBytes: () => 100, heapBytes: () => 10 }
    const bridge = observed({ ...usage, now: () => 1_000_500, monotonicNow: () => 500 })
    Object.assign(bridge.state, { inFlight: 3, lostLines: 5 })
    bridge.families()
    bridge.state.inFlight = 4

    expect(bridge.figures()).toMatchObject({
      sync_bridge_requests_in_flight: 4,
      sync_bridge_log_lines_dropped_total: 5,
      [build]: 1,
      process_cpu_seconds_total: 1.5,
      process_resident_memory_bytes: 100,
      process_start_time_seconds: 1000,
    })
  })
})

describe('renderFamilies', () => {
  it('writes the format of Prometheus', () => {
    const bridge = observed()
    bridge.answered('root', 'GET', 200, 3)

    const text = renderFamilies(bridge.families())

    expect(text).toContain(
      '# HELP sync_bridge_requests_total Answered requests\n# TYPE sync_bridge_requests_total counter\n' +
        'sync_bridge_requests_total{route="root",method="GET",status="200"} 1\n',
    )
    const line = /^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+)$/
    expect(text.split('\n').filter((one) => one !== '' && !line.test(one))).toEqual([])
    expect(text).toEndWith('\n')
    expect(expositionType).toBe('text/plain; version=0.0.4; charset=utf-8')
  })
})

describe('mergeFamilies', () => {
  it('adds up the counters of processes, and keeps common values', () => {
    const processes = [1_000_000, 2_000_000].map((startedAtMs) => observed({ now: () => startedAtMs }))
    processes[0]!.answered('root', 'GET', 200, 3)
    processes[1]!.answered('root', 'GET', 200, 3000)
    processes[1]!.answered('root', 'GET', 503, 1)

    const merged = mergeFamilies(processes.map(({ families }) => families()))

    expect(Object.fromEntries(merged.flatMap(({ samples }) => samples))).toMatchObject({
      'sync_bridge_requests_total{route="root",method="GET",status="200"}': 2,
      'sync_bridge_requests_total{route="root",method="GET",status="503"}': 1,
      'sync_bridge_request_duration_seconds_bucket{route="root",le="0.005"}': 2,
      'sync_bridge_request_duration_seconds_count{route="root"}': 3,
      [build]: 1,
      sync_bridge_processes: 2,
      process_resident_memory_bytes: 2e8,
      process_start_time_seconds: 1000,
    })
  })
})

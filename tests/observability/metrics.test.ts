import { describe, expect, it } from 'bun:test'

import { expositionType, mergeFamilies, renderFamilies } from '../../src/observability/metric-families.ts'
import { createMetrics } from '../../src/observability/metrics.ts'

import type { MetricFamily } from '../../src/observability/metric-families.ts'
import type { MetricsSources } from '../../src/observability/metrics.ts'

function metricsOf(sources: Partial<MetricsSources> = {}) {
  return createMetrics({
    version: '1.2.3',
    commit: 'abc',
    requestsInFlight: () => 0,
    breakers: () => [],
    requestsAdmitted: () => 512,
    logLinesDropped: () => 0,
    usage: () => null,
    ...sources,
  })
}

/** The series that have a figure, by name. */
function figures(families: MetricFamily[]): Record<string, number> {
  return Object.fromEntries(families.flatMap(({ samples }) => samples))
}

describe('createMetrics', () => {
  it('counts requests by route, method and status, and how long they took by route', () => {
    const metrics = metricsOf()

    metrics.request('records', 'GET', 200, 7)
    metrics.request('records', 'GET', 200, 40)
    metrics.request('records', 'HEAD', 304, 99_000)
    metrics.request('record', 'PUT', 412, 1)

    const told = figures(metrics.families())
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

  it('takes methods that clients make up for one', () => {
    const metrics = metricsOf()

    for (const method of ['PROPFIND', 'PURGE', 'X"}']) metrics.request('record', method, 405, 1)

    expect(figures(metrics.families())).toMatchObject({
      'sync_bridge_requests_total{route="record",method="other",status="405"}': 3,
    })
  })

  it('counts calls to upstream by status or failure', () => {
    const metrics = metricsOf()

    metrics.upstreamCall('storage', 'GET', 200, null, 20)
    metrics.upstreamCall('storage', 'GET', null, 'timeout', 20_000)
    metrics.upstreamCall('storage', 'GET', 302, 'bad-response', 3)
    metrics.upstreamCall('token', 'GET', null, null, 5)

    expect(figures(metrics.families())).toMatchObject({
      'sync_bridge_upstream_calls_total{target="storage",method="GET",result="200"}': 1,
      'sync_bridge_upstream_calls_total{target="storage",method="GET",result="timeout"}': 1,
      'sync_bridge_upstream_calls_total{target="storage",method="GET",result="bad-response"}': 1,
      'sync_bridge_upstream_calls_total{target="token",method="GET",result="aborted"}': 1,
      'sync_bridge_upstream_duration_seconds_count{target="storage"}': 3,
    })
  })

  it('counts what else happens, and shows what alerts count before it happens', () => {
    const metrics = metricsOf({ requestsAdmitted: () => 358 })

    metrics.credentials('hit-local')
    metrics.credentials('hit-local')
    metrics.redisError('timeout')
    metrics.transaction('partial')
    metrics.batch(25)
    metrics.shed('limit')
    metrics.eventLoopLag(3)
    metrics.eventLoopLag(120)

    expect(figures(metrics.families())).toMatchObject({
      'sync_bridge_credentials_total{event="hit-local"}': 2,
      'sync_bridge_redis_errors_total{reason="timeout"}': 1,
      'sync_bridge_transactions_total{event="partial"}': 1,
      'sync_bridge_transactions_total{event="unknown"}': 0,
      'sync_bridge_batch_requests_bucket{le="10"}': 0,
      'sync_bridge_batch_requests_bucket{le="25"}': 1,
      sync_bridge_batch_requests_sum: 25,
      'sync_bridge_requests_shed_total{reason="limit"}': 1,
      'sync_bridge_requests_shed_total{reason="lag"}': 0,
      'sync_bridge_event_loop_lag_seconds_bucket{le="0.005"}': 1,
      'sync_bridge_event_loop_lag_seconds_bucket{le="0.25"}': 2,
      sync_bridge_concurrency_limit: 358,
      sync_bridge_defects_total: 0,
      sync_bridge_lists_broken_total: 0,
    })
  })

  it('asks for the state of the process when it is read', () => {
    let inFlight = 3
    const metrics = metricsOf({
      requestsInFlight: () => inFlight,
      logLinesDropped: () => 5,
      usage: () => ({ cpuSeconds: 1.5, residentBytes: 100, heapBytes: 10, startedAtSeconds: 1000 }),
    })
    metrics.families()
    inFlight = 4

    expect(figures(metrics.families())).toMatchObject({
      sync_bridge_requests_in_flight: 4,
      sync_bridge_log_lines_dropped_total: 5,
      'sync_bridge_build_info{version="1.2.3",commit="abc"}': 1,
      process_cpu_seconds_total: 1.5,
      process_resident_memory_bytes: 100,
      process_start_time_seconds: 1000,
    })
  })
})

describe('renderFamilies', () => {
  it('writes what Prometheus reads', () => {
    const metrics = metricsOf()
    metrics.request('root', 'GET', 200, 3)

    const text = renderFamilies(metrics.families())

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
  it('adds up what processes count, and keeps what they have in common', () => {
    const usage = (startedAtSeconds: number) => () => ({
      cpuSeconds: 1,
      residentBytes: 100,
      heapBytes: 1,
      startedAtSeconds,
    })
    const processes = [1000, 2000].map((started) => metricsOf({ usage: usage(started) }))
    processes[0]!.request('root', 'GET', 200, 3)
    processes[1]!.request('root', 'GET', 200, 3000)
    processes[1]!.request('root', 'GET', 503, 1)

    const merged = figures(mergeFamilies(processes.map((metrics) => metrics.families())))

    expect(merged).toMatchObject({
      'sync_bridge_requests_total{route="root",method="GET",status="200"}': 2,
      'sync_bridge_requests_total{route="root",method="GET",status="503"}': 1,
      'sync_bridge_request_duration_seconds_bucket{route="root",le="0.005"}': 2,
      'sync_bridge_request_duration_seconds_count{route="root"}': 3,
      'sync_bridge_build_info{version="1.2.3",commit="abc"}': 1,
      sync_bridge_processes: 2,
      process_resident_memory_bytes: 200,
      process_start_time_seconds: 1000,
    })
  })
})

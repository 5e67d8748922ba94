import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { observed, type Observed } from '../service/observed.ts'
import { runProgram, temporaryFolder } from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { Client, startNodes, type Nodes } from './nodes.ts'

const examples = join(import.meta.dir, '../../docs/examples')

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string }
}

interface Panel {
  type: string
  gridPos: { x: number; y: number; w: number; h: number }
  targets?: { expr: string }[]
}

const { groups } = Bun.YAML.parse(readFileSync(join(examples, 'alerts.yml'), 'utf8')) as {
  groups: { rules: Rule[] }[]
}
const dashboard = JSON.parse(readFileSync(join(examples, 'grafana-dashboard.json'), 'utf8')) as {
  panels: (Panel & { title: string })[]
  templating: { list: { name: string; query: string }[] }
}
const rules = groups.flatMap((group) => group.rules)
const expressions = [
  ...rules.map(({ expr }) => expr),
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
]

// Prometheus adds these labels itself.
const added = ['job', 'instance']

let nodes: Nodes
/** The metrics of a bridge after a bit of everything: labels by metric. */
let shown: Map<string, Set<string>>

beforeAll(async () => {
  nodes = await startNodes({}, [{}])
  const client = new Client(nodes.nodes[0]!.url, nodes.sandbox.addUser('alice'))
  await client.ask('PUT', '/a', { data: { payload: 'x' } })
  await client.ask('GET', '')
  const requests = [{ path: '/v1/' }, { path: '/v1/' }]
  await client.send('POST', '/v1/batch', { requests })
  await nodes.redis.kill()
  const measured = ['sync_bridge_redis_errors_total', 'sync_bridge_event_loop_lag_seconds_bucket']
  await eventually('the failures and the lag were measured', async () => {
    const names = await metrics()
    return measured.every((name) => names.has(name))
  })
  shown = await metrics()
})

afterAll(() => nodes[Symbol.asyncDispose]())

async function metrics(): Promise<Map<string, Set<string>>> {
  const answer = await fetch(`${nodes.nodes[0]!.url}/v1/__metrics__`)
  const found = new Map<string, Set<string>>()
  for (const [, name, labels = ''] of (await answer.text()).matchAll(/^([a-z_]+)(?:\{(.*)\})? \S+$/gm)) {
    const names = [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label!)
    found.set(name!, new Set([...(found.get(name!) ?? []), ...names]))
  }
  return found
}

/** The metrics in an expression, with the labels that it selects by. */
function metricsIn(expression: string): [name: string, labels: string[]][] {
  const found = expression.matchAll(/\b((?:sync_bridge|process)_[a-z_]+)(?:\{([^}]*)\})?/g)
  const labelsIn = (text: string) => Array.from(text.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g), ([, name]) => name!)
  return Array.from(found, ([, name, labels = '']) => [name!, labelsIn(labels)])
}

// Bridges and promtool, because alerts evaluate what bridges count, in the language of Prometheus.
describe('the alerts and the dashboard', () => {
  it('use only metrics that a bridge has', () => {
    const asked = [...expressions, ...dashboard.templating.list.map(({ query }) => query)].flatMap(metricsIn)
    const isKnown = (name: string, label: string) => added.includes(label) || shown.get(name)?.has(label)
    const unknown = asked.filter(
      ([name, labels]) => !shown.has(name) || !labels.every((label) => isKnown(name, label)),
    )

    expect(asked.length).toBeGreaterThan(30)
    expect(unknown).toEqual([])
  })

  it('group by labels that the metrics have', () => {
    const strange = expressions.flatMap((expression) => {
      const groupings = [...expression.matchAll(/\bby \(([^)]*)\)/g)]
      const labels = groupings.flatMap(([, grouped]) => grouped!.split(/,\s*/))
      const known = [...added, ...metricsIn(expression).flatMap(([name]) => [...shown.get(name)!])]
      return labels.filter((label) => !known.includes(label)).map((label) => [expression, label])
    })

    expect(strange).toEqual([])
  })

  it('show everything that a bridge counts', () => {
    const asked = new Set(expressions.flatMap(metricsIn).map(([name]) => name))
    // The series of a histogram count as one metric; two metrics only describe the machine.
    const counted = [...shown.keys()].filter((name) => !/_(sum|count)$|^process_heap_bytes$/.test(name))

    expect(counted.filter((name) => !asked.has(name))).toEqual([])
  })
})

describe('the alerts', () => {
  it('have unique names, a severity and a summary', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
    for (const { alert, labels, annotations } of rules) {
      expect(alert).toMatch(/^SyncBridge[A-Z]\w+$/)
      expect(['warning', 'critical']).toContain(labels.severity)
      expect(annotations.summary).not.toBe('')
    }
  })
})

describe('the dashboard', () => {
  it('has queries that Prometheus can parse', async () => {
    using folder = temporaryFolder()
    const rules = expressions.map((expr, index) => ({ record: `panel_${index}`, expr: concrete(expr) }))
    writeFileSync(folder.file('rules.yml'), JSON.stringify({ groups: [{ name: 'panels', rules }] }))

    const said = await runProgram(['promtool', 'check', 'rules', folder.file('rules.yml')])

    expect(said).toContain(`SUCCESS: ${expressions.length} rules found`)
  })
})

/** What happens to a bridge: an event after five minutes, repeated each minute if it lasts. */
interface Story {
  happens(bridge: Observed): void
  lasts?: true
}

/** Evaluates expressions with promtool after 25 minutes in which Prometheus has scraped a bridge each minute. */
async function evaluate({ happens, lasts }: Story, expected: { expr: string; values: number[] }[]) {
  const bridge = observed()
  const start = new Map(bridge.families().flatMap(({ samples }) => samples))
  happens(bridge)
  const series = bridge.families().flatMap(({ samples, type }) =>
    samples.map(([name, value]) => {
      const before = start.get(name)
      const growth = lasts && type !== 'gauge' ? value - (before ?? 0) : 0
      // "_" is a minute in which the bridge did not have the series yet.
      const begin = before === undefined ? '_x5' : `${before}+0x4`
      return { series: withLabels(name), values: `${begin} ${value}+${growth}x30` }
    }),
  )
  series.push({ series: 'up{job="sync-bridge",instance="a"}', values: '1+0x40' })
  using folder = temporaryFolder()
  const test = {
    rule_files: [join(examples, 'alerts.yml')],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: series,
        promql_expr_test: expected.map(({ expr, values }) => ({
          expr,
          eval_time: lasts ? '25m' : '6m',
          exp_samples: values.map((value) => ({ labels: '{}', value })),
        })),
      },
    ],
  }
  writeFileSync(folder.file('test.yml'), JSON.stringify(test))
  await runProgram(['promtool', 'test', 'rules', folder.file('test.yml')])
}

function withLabels(series: string): string {
  const own = 'job="sync-bridge",instance="a"'
  return series.endsWith('}') ? `${series.slice(0, -1)},${own}}` : `${series}{${own}}`
}

const firing = (alert: string) =>
  `count(count by (alertname) (ALERTS{alertname="${alert}",alertstate="firing"}))`

describe('an alert', () => {
  const happened: [alert: string, Story['happens']][] = [
    ['SyncBridgeDefect', (bridge) => bridge.error(new Error('a defect'))],
    ['SyncBridgePartialWrite', (bridge) => bridge.transaction({ kind: 'partial', collections: [] })],
    ['SyncBridgeUnknownWrite', (bridge) => bridge.transaction({ kind: 'unknown', collections: [] })],
    ['SyncBridgeListsBroken', (bridge) => times(9, () => bridge.listBroken({ requestId: 'a' }, 1, null))],
    ['SyncBridgeLogLost', ({ state }) => void (state.lostLines = 1)],
    ['SyncBridgeForeignCacheEntries', (bridge) => times(9, () => bridge.credentials('rejected-entry'))],
  ]
  const lasting: typeof happened = [
    ['SyncBridgeRejections', (bridge) => times(200, () => bridge.rejected('limit'))],
    ['SyncBridgeRedisAway', (bridge) => times(9, () => bridge.redisTrouble('timeout', null))],
    [
      'SyncBridgeFailing',
      (bridge) => {
        times(9, () => bridge.answered('records', 'GET', 200, 5))
        bridge.answered('record', 'PUT', 503, 5)
      },
    ],
    [
      'SyncBridgeUpstreamFailing',
      (bridge) => {
        times(4, () => bridge.called('GET', 200, null, 5))
        bridge.called('GET', null, 'timeout', 5)
      },
    ],
    ['SyncBridgeSlow', (bridge) => bridge.answered('records', 'GET', 200, 4000)],
    ['SyncBridgeLate', (bridge) => bridge.eventLoopLag(240)],
  ]
  const stories: [alert: string, Story][] = [
    ...happened.map(([alert, happens]): [string, Story] => [alert, { happens }]),
    ...lasting.map(([alert, happens]): [string, Story] => [alert, { happens, lasts: true }]),
  ]

  it.each(stories)('%s fires at the first opportunity, and no other', async (alert, story) => {
    await evaluate(story, [
      { expr: firing(alert), values: [1] },
      { expr: firing('.*').replace('=".*"', '=~".*"'), values: [1] },
    ])
  })

  it('does not fire for errors that clients cause', async () => {
    const happens = (bridge: Observed) => {
      answers(bridge, 200, 304, 400, 401, 404, 412, 413)
      for (const status of [200, 304, 401, 412]) bridge.called('GET', status, null, 5)
      times(4, () => bridge.called('GET', null, null, 5))
      bridge.transaction({ kind: 'committed', collections: ['tabs'] })
    }

    await evaluate({ happens, lasts: true }, [{ expr: 'count(ALERTS)', values: [] }])
  })
})

describe('the panel of failing requests', () => {
  const [target] = dashboard.panels.find(({ title }) => title === 'Failing requests')!.targets!
  const expr = concrete(target!.expr)

  it.each([
    ['without any request', [], 0],
    ['when none fails', [200, 404, 412], 0],
    ['when one of two fails', [200, 503], 0.5],
  ])('shows a number %s', async (_, statuses, share) => {
    await evaluate({ happens: (bridge) => answers(bridge, ...statuses), lasts: true }, [
      { expr, values: [share] },
    ])
  })
})

/** A panel's expression as Grafana sends it, with its variables filled in. */
function concrete(expression: string): string {
  return expression
    .replaceAll('$job', 'sync-bridge')
    .replaceAll('$instance', '.*')
    .replaceAll('$__rate_interval', '5m')
}

function answers(bridge: Observed, ...statuses: number[]): void {
  for (const status of statuses) bridge.answered('record', 'GET', status, 5)
}

function times(count: number, act: () => void): void {
  for (let done = 0; done < count; done++) act()
}

import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import { eventually } from '../support/redis-server.ts'
import { Client, startNodes } from './nodes.ts'

import type { Nodes } from './nodes.ts'

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
  panels: Panel[]
  templating: { list: { name: string; query: string }[] }
}
const rules = groups.flatMap((group) => group.rules)
const expressions = [
  ...rules.map(({ expr }) => expr),
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
]

let nodes: Nodes
/** What a bridge shows that has done a bit of everything: labels by metric. */
let shown: Map<string, Set<string>>

beforeAll(async () => {
  nodes = await startNodes({}, [{}])
  const client = new Client(nodes.nodes[0]!.url, nodes.sandbox.addUser('alice'))
  await client.ask('PUT', '/a', { data: { payload: 'x' } })
  await client.ask('GET', '')
  const requests = [{ path: '/v1/' }, { path: '/v1/' }]
  await client.send('POST', '/v1/batch', { requests })
  await nodes.redis.kill()
  await eventually('the trouble and the lag were measured', async () => {
    const names = await metrics()
    return (
      names.has('sync_bridge_redis_troubles_total') && names.has('sync_bridge_event_loop_lag_seconds_bucket')
    )
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

/** The metrics in an expression, with the labels that they are asked for. */
function metricsIn(expression: string): [name: string, labels: string[]][] {
  return [...expression.matchAll(/\b((?:sync_bridge|process)_[a-z_]+)(?:\{([^}]*)\})?/g)].map(
    ([, name, labels = '']) => [
      name!,
      [...labels.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => label!),
    ],
  )
}

describe('the alerts and the dashboard', () => {
  it('ask for nothing that a bridge does not show', () => {
    // Prometheus adds two of its own.
    const added = ['job', 'instance']
    const asked = expressions.flatMap(metricsIn)
    const unknown = asked.filter(
      ([name, labels]) =>
        !shown.has(name) || labels.some((label) => !added.includes(label) && !shown.get(name)!.has(label)),
    )

    expect(asked.length).toBeGreaterThan(30)
    expect(unknown).toEqual([])
    for (const { query } of dashboard.templating.list) {
      for (const [name] of metricsIn(query)) expect(shown.has(name)).toBe(true)
    }
  })

  it('group by labels that the metrics have', () => {
    for (const expression of expressions) {
      const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels]) =>
        labels!.split(/,\s*/),
      )
      const known = new Set([
        'job',
        'instance',
        ...metricsIn(expression).flatMap(([name]) => [...shown.get(name)!]),
      ])
      for (const label of grouped) expect([expression, known.has(label)]).toEqual([expression, true])
    }
  })

  it('show everything that a bridge counts', () => {
    const asked = new Set(expressions.flatMap(metricsIn).map(([name]) => name))
    // What a histogram consists of is one thing, and two figures say something about the machine only.
    const counted = [...shown.keys()].filter((name) => !/_(sum|count)$|^process_heap_bytes$/.test(name))

    expect(counted.filter((name) => !asked.has(name))).toEqual([])
  })
})

describe('the alerts', () => {
  it('have names of their own, a severity and a summary', () => {
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
    for (const { alert, labels, annotations } of rules) {
      expect(alert).toMatch(/^SyncBridge[A-Z]\w+$/)
      expect(['warning', 'critical']).toContain(labels.severity)
      expect(annotations.summary).not.toBe('')
    }
  })
})

describe('the dashboard', () => {
  it('has panels that do not lie on one another', () => {
    const taken = new Set<string>()
    for (const { gridPos } of dashboard.panels) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x} ${y}`)).toBe(false)
          taken.add(`${x} ${y}`)
        }
      }
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
    }
  })
})

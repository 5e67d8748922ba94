/**
 * A program of its own that asks a bridge all the time: half of its clients keep their connections for as long as the
 * server allows it, the others make a new one for each request; or all of them. Its one argument is a `LoadPlan` as JSON; it prints
 * how many requests are done, line by line, and at last a `LoadReport` as JSON.
 */
import { BareConnection } from './bare-connection.ts'

import type { BareAnswer } from './bare-connection.ts'

export interface LoadPlan {
  hostname: string
  port: number
  bucket: string
  /** Headers that name the user. */
  identity: Record<string, string>
  /** One for each client, which alone writes into it. */
  collections: string[]
  /** A collection that has at least five records, and that nobody changes. */
  known: string
  requests: number
  /** Every request on a connection of its own. */
  onlyFresh?: boolean
}

export interface LoadReport {
  requests: number
  byMethod: Record<string, number>
  freshConnections: number
  keptConnections: number
  /** What happened instead of a right answer, and how often. */
  failures: Record<string, number>
  /** Records that were said to be written, and are not there with what was written. */
  missing: string[]
  written: number
  seconds: number
  medianMs: number
  slowestMs: number
  /** Requests that took longer than half a second. */
  slow: number
}

const plan = JSON.parse(process.argv[2]!) as LoadPlan
const report = await run()
process.stdout.write(`${JSON.stringify(report)}\n`)

async function run(): Promise<LoadReport> {
  const failures: Record<string, number> = {}
  const byMethod: Record<string, number> = {}
  const took: number[] = []
  const acknowledged = new Map<string, Map<string, string>>()
  const connections = { fresh: 0, kept: 0 }
  const startedAtMs = performance.now()
  let begun = 0
  let done = 0

  await Promise.all(
    plan.collections.map(async (collection, index) => {
      const client = new Client(collection, !plan.onlyFresh && index % 2 === 0, connections)
      acknowledged.set(collection, client.written)
      while ((begun += 1) <= plan.requests) {
        const step = client.next()
        const sentAtMs = performance.now()
        const failure = await client.carryOut(step)
        took.push(performance.now() - sentAtMs)
        byMethod[step.method] = (byMethod[step.method] ?? 0) + 1
        if (failure !== null) {
          const what = `${step.method} on a ${client.keeps ? 'kept' : 'fresh'} connection: ${failure}`
          failures[what] = (failures[what] ?? 0) + 1
          // As a client would, before it tries again.
          await Bun.sleep(20)
        }
        done += 1
        if (done % 100 === 0) process.stdout.write(`${done}\n`)
      }
      client.leave()
    }),
  )
  const seconds = (performance.now() - startedAtMs) / 1000
  const missing = await findMissing(acknowledged)
  took.sort((a, b) => a - b)
  return {
    requests: done,
    byMethod,
    freshConnections: connections.fresh,
    keptConnections: connections.kept,
    failures,
    missing,
    written: [...acknowledged.values()].reduce((total, { size }) => total + size, 0),
    seconds: Math.round(seconds * 10) / 10,
    medianMs: Math.round(took[Math.floor(took.length / 2)]! * 10) / 10,
    slowestMs: Math.round(took.at(-1)!),
    slow: took.filter((ms) => ms > 500).length,
  }
}

interface Step {
  method: string
  path: string
  body?: unknown
  /** What is wrong with the body of a 200; null: nothing. */
  check(body: string): string | null
}

/** Somebody who writes new records into a collection of their own and reads them again, and others. */
class Client {
  readonly written = new Map<string, string>()
  #connection: BareConnection | null = null
  #turn = 0
  #last: string | null = null

  constructor(
    readonly collection: string,
    readonly keeps: boolean,
    private readonly connections: { fresh: number; kept: number },
  ) {}

  next(): Step {
    this.#turn += 1
    switch (this.#turn % 4) {
      case 1:
        return this.#put(`record-${this.#turn}`)
      case 2:
        return this.#last === null ? listOf(plan.known) : this.#get(this.#last)
      case 3:
        return listOf(plan.known)
      default:
        return this.#turn % 16 === 0 ? this.#batch(`record-${this.#turn}`) : listOf(plan.known)
    }
  }

  /** What went wrong, or null. */
  async carryOut(step: Step): Promise<string | null> {
    let answer: BareAnswer
    try {
      answer = await this.#send(step)
    } catch (error) {
      return (error as { code?: string }).code ?? (error as Error).message
    }
    if (answer.status !== 200) return `status ${answer.status}`
    return step.check(answer.body)
  }

  async #send(step: Step): Promise<BareAnswer> {
    if (!this.#connection?.isOpen) {
      this.connections[this.keeps ? 'kept' : 'fresh'] += 1
      this.#connection = await BareConnection.open(plan.hostname, plan.port)
    }
    const answer = await this.#connection.ask(requestText(step))
    if (!this.keeps) this.#connection.close()
    return answer
  }

  leave(): void {
    this.#connection?.close()
  }

  #put(id: string): Step {
    const payload = `${this.collection} ${id}`
    return {
      method: 'PUT',
      path: `/v1/buckets/${plan.bucket}/collections/${this.collection}/records/${id}`,
      body: { data: { payload } },
      check: (body) => {
        if (JSON.parse(body).data.payload !== payload) return 'another record'
        this.#note(id, payload)
        return null
      },
    }
  }

  #get(id: string): Step {
    return {
      method: 'GET',
      path: `/v1/buckets/${plan.bucket}/collections/${this.collection}/records/${id}`,
      check: (body) =>
        JSON.parse(body).data.payload === this.written.get(id) ? null : 'not what was written last',
    }
  }

  #batch(id: string): Step {
    const ids = [`${id}-a`, `${id}-b`]
    const path = (name: string) => `/buckets/${plan.bucket}/collections/${this.collection}/records/${name}`
    return {
      method: 'POST',
      path: '/v1/batch',
      body: {
        defaults: { method: 'PUT' },
        requests: ids.map((name) => ({ path: path(name), body: { data: { payload: `batch ${name}` } } })),
      },
      check: (body) => {
        const { responses } = JSON.parse(body) as { responses: { status: number }[] }
        if (!responses.every(({ status }) => status === 200)) return 'a part has failed'
        for (const name of ids) this.#note(name, `batch ${name}`)
        return null
      },
    }
  }

  #note(id: string, payload: string): void {
    this.#last = id
    this.written.set(id, payload)
  }
}

function listOf(collection: string): Step {
  return {
    method: 'GET',
    path: `/v1/buckets/${plan.bucket}/collections/${collection}/records?_limit=5`,
    check: (body) => (JSON.parse(body).data.length === 5 ? null : 'not five records'),
  }
}

function requestText({ method, path, body }: Step): string {
  const text = body === undefined ? '' : JSON.stringify(body)
  const headers = {
    Host: `${plan.hostname}:${plan.port}`,
    ...plan.identity,
    ...(text !== '' && { 'Content-Type': 'application/json', 'Content-Length': String(text.length) }),
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${text}`
}

async function findMissing(acknowledged: Map<string, Map<string, string>>): Promise<string[]> {
  const missing: string[] = []
  for (const [collection, records] of acknowledged) {
    const connection = await BareConnection.open(plan.hostname, plan.port)
    const path = `/v1/buckets/${plan.bucket}/collections/${collection}/records`
    const { body } = await connection.ask(requestText({ method: 'GET', path, check: () => null }))
    connection.close()
    const { data } = JSON.parse(body) as { data: { id: string; payload: string }[] }
    const stored = new Map(data.map(({ id, payload }) => [id, payload]))
    for (const [id, payload] of records) {
      if (stored.get(id) !== payload) missing.push(`${collection}/${id}`)
    }
  }
  return missing
}

/**
 * A program of its own that asks a bridge all the time: half of its clients keep their connections for as long as the
 * server allows it, the others make a new one for each request. Its one argument is a `LoadPlan` as JSON; it prints how many
 * requests are done, line by line, and at last a `LoadReport` as JSON.
 */
import { KeepAlive } from '../support/keep-alive.ts'

export interface LoadPlan {
  url: string
  bucket: string
  /** Headers that name the user. */
  identity: Record<string, string>
  /** One for each client, which alone writes into it. */
  collections: string[]
  /** A collection that has at least five records, and that nobody changes. */
  known: string
  requests: number
}

export interface LoadReport {
  requests: number
  freshConnections: number
  /** What happened instead of a right answer, and how often. */
  failures: Record<string, number>
  /** Records that were said to be written, and are not there with what was written. */
  missing: string[]
  written: number
}

/** As much of the bodies as is looked at: of records, lists and batches. */
interface Body {
  data: { payload?: string; length?: number }
  responses: { status: number }[]
}

interface Step {
  method: string
  path: string
  body?: unknown
  /** What is wrong with the body of a 200; null: nothing. */
  check(body: Body): string | null
}

const plan = JSON.parse(process.argv[2]!) as LoadPlan
const recordsOf = (collection: string) => `/buckets/${plan.bucket}/collections/${collection}/records`
process.stdout.write(`${JSON.stringify(await run())}\n`)

async function run(): Promise<LoadReport> {
  const failures: Record<string, number> = {}
  const acknowledged = new Map<string, Map<string, string>>()
  let freshConnections = 0
  let begun = 0
  let done = 0

  await Promise.all(
    plan.collections.map(async (collection, index) => {
      const client = new Client(collection)
      const keeps = index % 2 === 0
      const connection = new KeepAlive(plan.url)
      acknowledged.set(collection, client.written)
      while ((begun += 1) <= plan.requests) {
        const step = client.next()
        const failure = await carryOut(step, connection)
        if (!keeps) {
          freshConnections += 1
          connection.close()
        }
        if (failure !== null) {
          const what = `${step.method} on a ${keeps ? 'kept' : 'fresh'} connection: ${failure}`
          failures[what] = (failures[what] ?? 0) + 1
          // As a client would, before it tries again.
          await Bun.sleep(20)
        }
        done += 1
        if (done % 100 === 0) process.stdout.write(`${done}\n`)
      }
      connection.close()
    }),
  )
  const written = [...acknowledged.values()].reduce((total, { size }) => total + size, 0)
  return { requests: done, freshConnections, failures, missing: await findMissing(acknowledged), written }
}

/** What went wrong, or null. Nothing is sent a second time, whatever happens to the connection. */
async function carryOut({ method, path, body, check }: Step, connection: KeepAlive): Promise<string | null> {
  const text = body === undefined ? '' : JSON.stringify(body)
  const headers = {
    Host: new URL(plan.url).host,
    ...plan.identity,
    ...(text !== '' && { 'Content-Type': 'application/json', 'Content-Length': String(text.length) }),
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const request = `${method} /v1${path} HTTP/1.1\r\n${lines.join('')}\r\n${text}`
  try {
    const answer = await connection.ask(Buffer.from(request), 30_000)
    if (!answer) return 'closed without an answer'
    return answer.status === 200 ? check(JSON.parse(answer.body.toString())) : `status ${answer.status}`
  } catch (error) {
    return (error as { code?: string }).code ?? (error as Error).message
  }
}

/** Somebody who writes new records into a collection of their own and reads them again, and others. */
class Client {
  readonly written = new Map<string, string>()
  #turn = 0
  #last: string | null = null

  constructor(private readonly collection: string) {}

  next(): Step {
    this.#turn += 1
    const id = `record-${this.#turn}`
    if (this.#turn % 16 === 0) return this.#batch(id)
    if (this.#turn % 4 === 1) return this.#put(id)
    if (this.#turn % 4 === 2 && this.#last !== null) return this.#get(this.#last)
    return {
      method: 'GET',
      path: `${recordsOf(plan.known)}?_limit=5`,
      check: ({ data }) => (data.length === 5 ? null : 'not five records'),
    }
  }

  #put(id: string): Step {
    const payload = `${this.collection} ${id}`
    return {
      method: 'PUT',
      path: `${recordsOf(this.collection)}/${id}`,
      body: { data: { payload } },
      check: ({ data }) => {
        if (data.payload !== payload) return 'another record'
        this.#note(id, payload)
        return null
      },
    }
  }

  #get(id: string): Step {
    return {
      method: 'GET',
      path: `${recordsOf(this.collection)}/${id}`,
      check: ({ data }) => (data.payload === this.written.get(id) ? null : 'not what was written last'),
    }
  }

  #batch(id: string): Step {
    const ids = [`${id}-a`, `${id}-b`]
    const requests = ids.map((name) => {
      return { path: `${recordsOf(this.collection)}/${name}`, body: { data: { payload: `batch ${name}` } } }
    })
    return {
      method: 'POST',
      path: '/batch',
      body: { defaults: { method: 'PUT' }, requests },
      check: ({ responses }) => {
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

async function findMissing(acknowledged: Map<string, Map<string, string>>): Promise<string[]> {
  const missing: string[] = []
  for (const [collection, records] of acknowledged) {
    const answer = await fetch(`${plan.url}/v1${recordsOf(collection)}`, { headers: plan.identity })
    const { data } = (await answer.json()) as { data: { id: string; payload: string }[] }
    const stored = new Map(data.map(({ id, payload }) => [id, payload]))
    for (const [id, payload] of records) {
      if (stored.get(id) !== payload) missing.push(`${collection}/${id}`)
    }
  }
  return missing
}

import { KeepAlive } from '../support/keep-alive.ts'

export interface LoadPlan {
  url: string
  bucket: string
  /** Headers that authenticate the user. */
  identity: Record<string, string>
  /** One for each client, which is its only writer. */
  collections: string[]
  /** A collection with at least five records that never change. */
  known: string
  requests: number
}

export interface LoadReport {
  requests: number
  freshConnections: number
  /** What happened instead of a correct response, and how often. */
  failures: Record<string, number>
  /** Records whose write was acknowledged, and which are missing or have other contents. */
  missing: string[]
  written: number
}

/** The parts of the bodies that are checked: of records, lists and batches. */
interface Body {
  data: { payload?: string; length?: number }
  responses: { status: number }[]
}

interface Step {
  method: string
  path: string
  body?: unknown
  /** The error in the body of a 200; null if none. */
  check(body: Body): string | null
}

/**
 * Sends requests continuously: half of the clients keep their connections as long as the server allows, the others open a new one for each
 * request. `done` resolves after that many requests.
 */
export function startLoad(plan: LoadPlan): {
  done(count: number): Promise<void>
  report: Promise<LoadReport>
} {
  const failures: Record<string, number> = {}
  const clients = plan.collections.map((collection) => new Client(plan, collection))
  const watchers: { count: number; resolve(): void }[] = []
  let freshConnections = 0
  let begun = 0
  let done = 0

  const loops = clients.map(async (client, index) => {
    const keeps = index % 2 === 0
    const connection = new KeepAlive(plan.url)
    while ((begun += 1) <= plan.requests) {
      const step = client.next()
      const failure = await runStep(plan, step, connection)
      if (!keeps) {
        freshConnections += 1
        connection.close()
      }
      if (failure !== null) {
        const what = `${step.method} on a ${keeps ? 'kept' : 'fresh'} connection: ${failure}`
        failures[what] = (failures[what] ?? 0) + 1
        // Like a client before a retry.
        await Bun.sleep(20)
      }
      done += 1
      for (const { count, resolve } of watchers) if (done >= count) resolve()
    }
    connection.close()
  })
  const report = async (): Promise<LoadReport> => {
    await Promise.all(loops)
    const missing = (await Promise.all(clients.map((client) => client.missing()))).flat()
    const written = clients.reduce((total, client) => total + client.written.size, 0)
    return { requests: done, freshConnections, failures, missing, written }
  }
  return {
    report: report(),
    done: (count) =>
      done >= count ? Promise.resolve() : new Promise((resolve) => watchers.push({ count, resolve })),
  }
}

/** The error, or null. Never retries, whatever happens to the connection. */
async function runStep(plan: LoadPlan, step: Step, connection: KeepAlive): Promise<string | null> {
  const { method, path, body, check } = step
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

/** A user who writes new records into their own collection and reads them again, and others. */
class Client {
  readonly written = new Map<string, string>()
  #turn = 0
  #last: string | null = null

  constructor(
    private readonly plan: LoadPlan,
    private readonly collection: string,
  ) {}

  next(): Step {
    this.#turn += 1
    const id = `record-${this.#turn}`
    if (this.#turn % 16 === 0) return this.#batch(id)
    if (this.#turn % 4 === 1) return this.#put(id)
    if (this.#turn % 4 === 2 && this.#last !== null) return this.#get(this.#last)
    return {
      method: 'GET',
      path: `${this.#records(this.plan.known)}?_limit=5`,
      check: ({ data }) => (data.length === 5 ? null : 'not five records'),
    }
  }

  #put(id: string): Step {
    const payload = `${this.collection} ${id}`
    return {
      method: 'PUT',
      path: `${this.#records()}/${id}`,
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
      path: `${this.#records()}/${id}`,
      check: ({ data }) => (data.payload === this.written.get(id) ? null : 'not what was written last'),
    }
  }

  #batch(id: string): Step {
    const ids = [`${id}-a`, `${id}-b`]
    const requests = ids.map((name) => {
      return { path: `${this.#records()}/${name}`, body: { data: { payload: `batch ${name}` } } }
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

  #records(collection = this.collection): string {
    return `/buckets/${this.plan.bucket}/collections/${collection}/records`
  }

  /** The acknowledged writes that are missing or have other contents. */
  async missing(): Promise<string[]> {
    const answer = await fetch(`${this.plan.url}/v1${this.#records()}`, { headers: this.plan.identity })
    const { data } = (await answer.json()) as { data: { id: string; payload: string }[] }
    const stored = new Map(data.map(({ id, payload }) => [id, payload]))
    const lost = [...this.written].filter(([id, payload]) => stored.get(id) !== payload)
    return lost.map(([id]) => `${this.collection}/${id}`)
  }
}

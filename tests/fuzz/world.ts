import { startExecutable, type Executable } from '../support/executable.ts'
import { KeepAlive } from '../support/keep-alive.ts'
import { toBytes } from './bytes.ts'
import { Chance } from './chance.ts'
import { collections, makeRequest, type FuzzedRequest, type Owner } from './requests.ts'
import { faultOfAnswer, faultOfCalls } from './verdict.ts'

import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { LoggedRequest } from '../support/sandbox.ts'

/** A failed request, the error, and its bytes. */
interface Failure {
  fault: string
  bytes: string
}

/** Timeout for a response. */
const patienceMs = 5000
/** Invalid HTTP may wait for more input; then the connection is closed. */
const rawPatienceMs = 150

/** A bridge over a healthy storage, and users who send random requests. A process of its own, because a request may end or block it. */
export class FuzzedWorld implements AsyncDisposable {
  readonly #bridge: Executable
  /** No request accesses this user's data. */
  readonly bystander: SandboxUser
  /** The storage calls that each request caused. */
  readonly #calls = new Map<string, LoggedRequest[]>()
  #readEntries = 0
  #requests = 0
  #hasEnded = false

  private constructor(bridge: Executable) {
    this.#bridge = bridge
    this.bystander = bridge.sandbox.addUser('bystander')
    bridge.sandbox.write(this.bystander, 'history', [{ id: 'a', payload: 'of the bystander' }])
    void bridge.exited.then(() => (this.#hasEnded = true))
  }

  static async start(): Promise<FuzzedWorld> {
    const settings: Record<string, string> = { metrics_enabled: 'false', explorer_enabled: 'true' }
    for (const name of collections.put) settings[`record_${name}_put_enabled`] = 'true'
    return new FuzzedWorld(await startExecutable({ settings, writable: collections.putAndDelete }))
  }

  /** Sends that many requests of one user in sequence, and returns the errors. */
  async fuzz(
    name: string,
    seed: number,
    count: number,
  ): Promise<{ failures: Failure[]; statuses: Map<number, number> }> {
    const user = this.#bridge.sandbox.addUser(name)
    const owner = ownerOf(user)
    for (const collection of Object.values(collections).flat()) {
      if (collection === 'never-used') continue
      this.#bridge.sandbox.write(
        user,
        collection,
        ['a', 'b', 'x/y', '{guid}'].map((id) => ({ id, payload: `payload of ${id}` })),
      )
    }
    const chance = new Chance(seed)
    const connection = new KeepAlive(this.#bridge.url)
    const statuses = new Map<number, number>()
    const failures: Failure[] = []
    for (let turn = 0; turn < count && failures.length < 3 && !this.#hasEnded; turn++) {
      const request = makeRequest(chance, owner)
      const { fault, status, bytes } = await this.#judge(request, user, connection)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (fault) failures.push({ fault, bytes: JSON.stringify(bytes.toString('latin1').slice(0, 4000)) })
    }
    connection.close()
    if (this.#hasEnded) failures.push({ fault: `the bridge has ended: ${this.#bridge.errors()}`, bytes: '' })
    return { failures, statuses }
  }

  async #judge(request: FuzzedRequest, user: SandboxUser, connection: KeepAlive) {
    const id = `fuzz-${++this.#requests}`
    const bytes = toBytes(request, id)
    const isPlain = request.isWellFormed && request.raw === null
    const used = isPlain ? connection : new KeepAlive(this.#bridge.url)
    const startedAtMs = performance.now()
    const stray = used.strayBytes
    const answer = await used.ask(bytes, isPlain ? patienceMs : rawPatienceMs)
    const tookMs = performance.now() - startedAtMs
    if (!isPlain) used.close()
    const status = answer?.status ?? 0
    const calls = this.#callsOf(id)
    const fault =
      (stray > 0 ? `comes after ${stray} unexpected bytes` : null) ??
      (isPlain && answer === null && tookMs >= patienceMs ? 'hangs' : null) ??
      faultOfAnswer(request, answer) ??
      (request.raw || !request.isWellFormed ? null : faultOfCalls(request, user.uid, calls)) ??
      this.#faultOfOthers(user)
    return { fault, status, bytes }
  }

  #callsOf(id: string): LoggedRequest[] {
    this.#readLog()
    const calls = this.#calls.get(id) ?? []
    this.#calls.delete(id)
    return calls
  }

  #others: LoggedRequest[] = []

  /** Groups the recent storage calls by the request that caused them. */
  #readLog(): void {
    const { storage, token } = this.#bridge.sandbox.requests
    for (const entry of storage.entries.slice(this.#readEntries)) {
      const id = entry.headers.get('x-request-id') ?? ''
      if (entry.target.includes(`/${this.bystander.uid}/`)) this.#others.push(entry)
      else if (id.startsWith('fuzz-')) this.#calls.set(id, [...(this.#calls.get(id) ?? []), entry])
    }
    this.#readEntries = storage.entries.length
    if (this.#readEntries < 5000) return
    storage.clear()
    token.clear()
    this.#readEntries = 0
  }

  #faultOfOthers(user: SandboxUser): string | null {
    const [other] = this.#others
    if (!other) return null
    this.#others = []
    return `calls the storage of another user than ${user.email}: ${other.method} ${other.target}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bridge.stop()
  }

  /** The bystander's data, which no request may change. */
  get untouched(): unknown {
    return this.#bridge.sandbox.records(this.bystander, 'history').map(({ id, payload }) => ({ id, payload }))
  }
}

function ownerOf(user: SandboxUser): Owner {
  return {
    bucket: user.clientState,
    authorization: `Bearer ${user.bearerToken()}`,
    assertion: `BrowserID ${user.assertion()}`,
    keyId: user.keyId,
  }
}

import { setTimeout as delay } from 'node:timers/promises'

import { endpointText, readEndpoint } from './redis-address.ts'
import { RedisLoss, RedisRefusal, troubleCode } from './redis-client.ts'
import { answerWithin, FirstAttempt, reconnectDelayMs } from './within-time.ts'

import type { RedisEndpoint } from './redis-address.ts'
import type { AskOnce, RedisLink } from './redis-client.ts'
import type { RedisTrouble } from './redis-connection.ts'

interface RedisClusterOptions {
  /** Members that are asked for the others. */
  seeds: RedisEndpoint[]
  /** A lasting connection to a member. */
  connect(endpoint: RedisEndpoint, onTrouble: (trouble: RedisTrouble, code: string | null) => void): RedisLink
  askOnce: AskOnce
  commandTimeoutMs: number
  random(): number
  onTrouble(trouble: RedisTrouble, code: string | null): void
}

/** How many members are asked at once which slots are whose. */
const askedAtOnce = 5
const leastRefreshIntervalMs = 200

/**
 * The masters of a cluster as one: each key is sent to the master of its slot. Who that is is asked anew whenever a
 * member redirects a command or is in trouble, so that replicas take over as soon as the cluster says so.
 */
export class RedisCluster implements RedisLink {
  readonly firstAttempt = new FirstAttempt()
  readonly #options: RedisClusterOptions
  readonly #closing = new AbortController()
  readonly #masters = new Map<string, RedisLink>()
  /** Who can be asked about the slots. */
  #members: RedisEndpoint[]
  /** The master of each slot, as text. */
  #owners: string[] = []
  /** Resolves when there is a reason to ask about the slots. */
  #doubt = Promise.withResolvers<void>()

  constructor(options: RedisClusterOptions) {
    this.#options = options
    this.#members = options.seeds
    void this.#stayInformed()
  }

  async ask(command: string[]): Promise<unknown> {
    await this.firstAttempt.wait()
    const key = command[1]
    const answer = key === undefined ? this.#askAll(command) : this.#askOwner(command, keySlot(key))
    return answerWithin(answer, this.#options.commandTimeoutMs)
  }

  close(): void {
    this.#closing.abort()
    this.firstAttempt.end()
    this.#doubt.resolve()
    for (const master of this.#masters.values()) master.close()
    this.#masters.clear()
    this.#owners = []
  }

  /** The answer of one, if all answer: a cluster with a part missing can't be relied upon. */
  async #askAll(command: string[]): Promise<unknown> {
    const answers = await Promise.all([...this.#masters.values()].map((master) => master.ask(command)))
    if (answers.length === 0) throw new RedisLoss(null, 'not connected')
    return answers[0]
  }

  async #askOwner(command: string[], slot: number): Promise<unknown> {
    const owner = this.#owners[slot]
    const master = owner === undefined ? undefined : this.#masters.get(owner)
    if (owner === undefined || !master) throw new RedisLoss(null, 'not connected')
    try {
      return await master.ask(command)
    } catch (error) {
      if (!(error instanceof RedisRefusal) || error.redirect === null) throw error
      this.#doubt.resolve()
      const other = redirection(error.redirect, owner)
      if (!other) throw error
      if (error.code === 'MOVED') this.#owners[slot] = endpointText(other)
      return this.#askOther(command, other, error.code)
    }
  }

  /** ASK announces a slot that is on its way from one member to another, and ASKING requests it. */
  async #askOther(command: string[], endpoint: RedisEndpoint, code: string): Promise<unknown> {
    const other = this.#connected(endpoint)
    if (code !== 'ASK') return other.ask(command)
    const [, answer] = await Promise.all([other.ask(['ASKING']), other.ask(command)])
    return answer
  }

  async #stayInformed(): Promise<void> {
    let failures = 0
    while (!this.#closing.signal.aborted) {
      this.#doubt = Promise.withResolvers()
      try {
        this.#adopt(await this.#discover())
        failures = 0
        void this.#connectedOnce().then(() => this.firstAttempt.end())
        await this.#doubt.promise
        await this.#pause(leastRefreshIntervalMs)
      } catch (error) {
        this.firstAttempt.end()
        this.#options.onTrouble('unreachable', troubleCode(error))
        await this.#pause(reconnectDelayMs(failures, this.#options.random()))
        failures += 1
      }
    }
  }

  async #connectedOnce(): Promise<void> {
    await Promise.all([...this.#masters.values()].map(({ firstAttempt }) => firstAttempt.ended))
  }

  /** The answer of the first member that has one; several are asked at once, so that one that hangs costs nothing. */
  async #discover(): Promise<SlotRange[]> {
    const { askOnce, random } = this.#options
    const shuffled = this.#members
      .map((member) => ({ member, order: random() }))
      .toSorted((a, b) => a.order - b.order)
      .map(({ member }) => member)
    return Promise.any(
      shuffled.slice(0, askedAtOnce).map(async (member) => {
        const ranges = readSlots(await askOnce(member, ['CLUSTER', 'SLOTS'], true), member)
        if (ranges.length === 0) throw new RedisRefusal('CLUSTERDOWN')
        return ranges
      }),
    )
  }

  #adopt(ranges: SlotRange[]): void {
    if (this.#closing.signal.aborted) return
    const members = [
      ...this.#options.seeds,
      ...ranges.flatMap(({ master, replicas }) => [master, ...replicas]),
    ]
    this.#members = [...new Map(members.map((member) => [endpointText(member), member])).values()]
    this.#owners = []
    for (const { first, last, master } of ranges) {
      this.#connected(master)
      for (let slot = first; slot <= last; slot++) this.#owners[slot] = endpointText(master)
    }
    const masters = new Set(ranges.map(({ master }) => endpointText(master)))
    for (const [name, connection] of this.#masters) {
      if (masters.has(name)) continue
      connection.close()
      this.#masters.delete(name)
    }
  }

  #connected(endpoint: RedisEndpoint): RedisLink {
    const name = endpointText(endpoint)
    const known = this.#masters.get(name)
    if (known) return known
    const { connect, onTrouble } = this.#options
    const made = connect(endpoint, (trouble, code) => {
      onTrouble(trouble, code)
      if (trouble === 'unreachable' || trouble === 'suspended') this.#doubt.resolve()
    })
    this.#masters.set(name, made)
    return made
  }

  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#closing.signal }).catch(() => {})
  }
}

/** Where a redirection leads: a member that does not know its own host leaves it out, and means that of the other. */
function redirection(text: string, from: string): RedisEndpoint | null {
  const origin = readEndpoint(from, 0)
  return readEndpoint(text.startsWith(':') && origin && 'host' in origin ? origin.host + text : text, 0)
}

const slotCount = 16_384

/** The slot of a cluster that a key belongs to; see the Redis cluster specification, "Key distribution model". */
export function keySlot(key: string): number {
  // Keys with the same part in braces share a slot, and the prefix of ours may have one.
  const tag = /^\{([^}]+)\}/.exec(key.slice(firstBrace(key)))
  return crc16(new TextEncoder().encode(tag?.[1] ?? key)) % slotCount
}

/** A run of slots and the server that answers for it. */
interface SlotRange {
  first: number
  last: number
  master: RedisEndpoint
  replicas: RedisEndpoint[]
}

/**
 * Reads the answer to CLUSTER SLOTS. Servers that don't know their own host name leave it out: it is that of the server
 * that answered. Throws when it isn't such an answer.
 */
export function readSlots(reply: unknown, answeredBy: RedisEndpoint): SlotRange[] {
  const ranges = reply as [number, number, ...[string | null, number][]][]
  return ranges.map(([first, last, ...members]) => {
    const [master, ...replicas] = members.map(([host, port]) => {
      const known = host === null || host === '' ? 'host' in answeredBy && answeredBy.host : host
      if (!known || known === '?') throw new Error('A member of the cluster has no address')
      return { host: known, port }
    })
    if (!master) throw new Error('A range of slots has no master')
    return { first, last, master, replicas }
  })
}

function firstBrace(key: string): number {
  return Math.max(0, key.indexOf('{'))
}

/** CRC-16/XMODEM. */
function crc16(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
    crc &= 0xffff
  }
  return crc
}

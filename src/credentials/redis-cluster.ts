import { endpointText, readEndpoint } from './redis-address.ts'
import {
  answerWithin,
  askOnce,
  openClient,
  pause,
  RedisError,
  RedisRefusal,
  troubleCode,
} from './redis-client.ts'
import { FirstAttempt, reconnectDelayMs, RedisConnection } from './redis-connection.ts'

import type { RedisAddress, RedisEndpoint } from './redis-address.ts'
import type { RedisConnectionOptions, RedisLink } from './redis-connection.ts'

interface RedisClusterOptions extends Omit<RedisConnectionOptions, 'open'> {
  /** Names members that are asked for the others. */
  address: RedisAddress
  connectTimeoutMs: number
}

/** A member that has slots, and the connection to it. */
interface Master {
  endpoint: RedisEndpoint
  link: RedisLink
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
  readonly #masters = new Map<string, Master>()
  /** Who can be asked about the slots. */
  #members: RedisEndpoint[]
  /** The master of each slot. */
  #owners: Master[] = []
  /** Resolves when there is a reason to ask about the slots. */
  #doubt = Promise.withResolvers<void>()

  constructor(options: RedisClusterOptions) {
    this.#options = options
    this.#members = options.address.endpoints
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
    for (const { link } of this.#masters.values()) link.close()
    this.#masters.clear()
    this.#owners = []
  }

  /** The answer of one, if all answer: a cluster with a part missing can't be relied upon. */
  async #askAll(command: string[]): Promise<unknown> {
    const answers = await Promise.all(Array.from(this.#masters.values(), ({ link }) => link.ask(command)))
    if (answers.length === 0) throw new RedisError(null, 'not connected')
    return answers[0]
  }

  async #askOwner(command: string[], slot: number): Promise<unknown> {
    const owner = this.#owners[slot]
    if (!owner) throw new RedisError(null, 'not connected')
    try {
      return await owner.link.ask(command)
    } catch (error) {
      if (!(error instanceof RedisRefusal) || error.redirect === null) throw error
      this.#doubt.resolve()
      const endpoint = redirection(error.redirect, owner.endpoint)
      if (!endpoint) throw error
      const other = this.#connected(endpoint)
      if (error.code === 'MOVED') this.#owners[slot] = other
      // ASK announces a slot that is on its way from one member to another, and ASKING requests it.
      const [, answer] = await Promise.all([
        error.code === 'ASK' ? other.link.ask(['ASKING']) : null,
        other.link.ask(command),
      ])
      return answer
    }
  }

  async #stayInformed(): Promise<void> {
    let failures = 0
    while (!this.#closing.signal.aborted) {
      this.#doubt = Promise.withResolvers()
      try {
        this.#adopt(await this.#discover())
        failures = 0
        const attempts = Array.from(this.#masters.values(), ({ link }) => link.firstAttempt.ended)
        void Promise.all(attempts).then(() => this.firstAttempt.end())
        await this.#doubt.promise
        await pause(leastRefreshIntervalMs, this.#closing.signal)
      } catch (error) {
        this.firstAttempt.end()
        this.#options.onTrouble('unreachable', troubleCode(error))
        await pause(reconnectDelayMs(failures, this.#options.random()), this.#closing.signal)
        failures += 1
      }
    }
  }

  /** The answer of the first member that has one; several are asked at once, so that one that hangs costs nothing. */
  async #discover(): Promise<SlotRange[]> {
    const { address, connectTimeoutMs, random } = this.#options
    const start = Math.floor(random() * this.#members.length)
    const asked = [...this.#members.slice(start), ...this.#members.slice(0, start)].slice(0, askedAtOnce)
    return Promise.any(
      asked.map(async (member) => {
        const reply = await askOnce(member, address, connectTimeoutMs, ['CLUSTER', 'SLOTS'])
        const ranges = readSlots(reply, member)
        if (ranges.length === 0) throw new RedisRefusal('CLUSTERDOWN')
        return ranges
      }),
    )
  }

  #adopt(ranges: SlotRange[]): void {
    if (this.#closing.signal.aborted) return
    const members = [
      ...this.#options.address.endpoints,
      ...ranges.flatMap(({ master, replicas }) => [master, ...replicas]),
    ]
    this.#members = [...new Map(members.map((member) => [endpointText(member), member])).values()]
    this.#owners = []
    for (const { first, last, master } of ranges) {
      const owner = this.#connected(master)
      for (let slot = first; slot <= last; slot++) this.#owners[slot] = owner
    }
    const owners = new Set(this.#owners)
    for (const [name, master] of this.#masters) {
      if (owners.has(master)) continue
      master.link.close()
      this.#masters.delete(name)
    }
  }

  #connected(endpoint: RedisEndpoint): Master {
    const name = endpointText(endpoint)
    const known = this.#masters.get(name)
    if (known) return known
    const { address, connectTimeoutMs } = this.#options
    const link = new RedisConnection({
      ...this.#options,
      open: (signal) => openClient(endpoint, address, connectTimeoutMs, signal),
      onTrouble: (trouble, code) => {
        this.#options.onTrouble(trouble, code)
        if (trouble === 'unreachable' || trouble === 'suspended') this.#doubt.resolve()
      },
    })
    const master = { endpoint, link }
    this.#masters.set(name, master)
    return master
  }
}

/** Where a redirection leads: a member that does not know its own host leaves it out, and means that of the other. */
function redirection(text: string, from: RedisEndpoint): RedisEndpoint | null {
  return readEndpoint(text.startsWith(':') ? endpointText(from).replace(/:\d{1,5}$/, text) : text, 0)
}

const slotCount = 16_384

/** The slot of a cluster that a key belongs to; see the Redis cluster specification, "Key distribution model". */
export function keySlot(key: string): number {
  // Keys with the same part in braces share a slot, and the prefix of ours may have one.
  const tag = /^[^{]*\{([^}]+)\}/.exec(key)
  return crc16(Buffer.from(tag?.[1] ?? key)) % slotCount
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

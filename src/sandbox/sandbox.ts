import { createHash, randomBytes } from 'node:crypto'
import { Accounts } from './accounts.ts'
import { Batches } from './batches.ts'
import type { BsoFields, StoredRecord } from './bso.ts'
import { mozilla } from './dialect.ts'
import { createTokens } from './hawk.ts'
import { listen } from './http.ts'
import { initialSwitches, type SandboxOptions, type Switches } from './options.ts'
import { SandboxUser, type UserOptions } from './sandbox-user.ts'
import { createStorageServer } from './storage-server.ts'
import { Storage, type TimedRecord } from './storage.ts'
import { createClock, quantumMs } from './timestamps.ts'
import { createTokenServer } from './token-server.ts'

export type { SandboxOptions } from './options.ts'

/** A running token server and storage node, in memory. */
export interface Sandbox {
  /** Without a path. */
  readonly tokenServerUrl: string
  /** Without a path. */
  readonly storageUrl: string
  /** Settings that may be changed at any time. */
  readonly switches: Switches
  /** The sandbox's time in milliseconds: the clock's, plus what `write`, `remove` and `seed` advanced it by. */
  nowMs(): number
  /** Creates an identity. A second one with the same name is the same account with other keys. */
  addUser(name: string, options?: UserOptions): SandboxUser
  /** The unexpired records of a collection, ordered by id. */
  records(user: SandboxUser, collection: string): StoredRecord[]
  /** Uploads like another device; returns the timestamp in milliseconds. Advances the time, so nothing conflicts. */
  write(user: SandboxUser, collection: string, records: readonly WrittenRecord[]): number
  /** Deletes records, or the collection if there are no ids, like another device; returns the timestamp in milliseconds. */
  remove(user: SandboxUser, collection: string, ids?: readonly string[]): number
  /** Adds `count` generated records at once. */
  seed(user: SandboxUser, collection: string, count: number, options?: SeedOptions): void
  /** Adds records with the given timestamps, which must be multiples of 10 ms, and ids that aren't stored yet. */
  load(user: SandboxUser, collection: string, records: Iterable<TimedRecord>): void
  /** Moves the account to another uid with an empty store; its tokens become invalid. */
  reassign(user: SandboxUser): void
  stop(): Promise<void>
}

/** Properties of generated records. */
interface SeedOptions {
  /** Size of each payload. @default 400 */
  payloadBytes?: number
  /** How many consecutive records share a timestamp, like the records of one upload. @default 1 */
  recordsPerTimestamp?: number
}

/** A record for `write`. */
export interface WrittenRecord extends BsoFields {
  id: string
}

const firstUid = 101

/** Starts an empty token server and storage node on loopback. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { hostname = '127.0.0.1', dialect = mozilla, tokenPort, storagePort, onRequest } = options
  const secret = randomBytes(32).toString('base64url')
  const clock = createClock(options.clock ?? Date.now, dialect.timestampAt)
  const switches = initialSwitches(options, dialect)
  const movedUids = new Set<number>()
  const storage = new Storage(dialect)
  const batches = new Batches(storage, dialect)
  const accounts = new Accounts(firstUid)
  const parts = {
    clock,
    switches,
    dialect,
    movedUids,
    storage,
    batches,
    accounts,
    secret,
    tokens: createTokens(secret),
  }
  const tokenServer = listen('token', { hostname, port: tokenPort, onRequest }, createTokenServer(parts))
  const storageServer = listen(
    'storage',
    { hostname, port: storagePort, onRequest },
    createStorageServer(parts),
  )
  const tokenServerUrl = `http://${hostname}:${tokenServer.port}`
  const storageUrl = `http://${hostname}:${storageServer.port}`
  switches.nodeUrl ||= storageUrl

  // The earliest timestamp that a write to the collection can get.
  function nextTimestamp(uid: number, collection: string): number {
    clock.moveTo(storage.collectionTimestamp(uid, collection) + quantumMs)
    return clock.timestamp()
  }

  function writeAt(uid: number, collection: string, work: (timestamp: number) => void): number {
    const timestamp = nextTimestamp(uid, collection)
    storage.transaction(() => work(timestamp))
    clock.moveTo(timestamp + quantumMs)
    return timestamp
  }

  function load(user: SandboxUser, collection: string, records: Iterable<TimedRecord>): void {
    storage.transaction(() => {
      let newest = storage.collectionTimestamp(user.uid, collection)
      for (const record of records) {
        storage.insert(user.uid, collection, record)
        newest = Math.max(newest, record.modified)
      }
      storage.touch(user.uid, collection, newest)
    })
  }

  return {
    tokenServerUrl,
    storageUrl,
    switches,
    nowMs: clock.nowMs,
    load,
    addUser: (name, userOptions) => new SandboxUser(name, { accounts, clock, tokenServerUrl }, userOptions),
    records: (user, collection) => storage.all(user.uid, collection, clock.nowMs()),
    write: (user, collection, records) =>
      writeAt(user.uid, collection, (timestamp) => {
        for (const record of records) storage.put(user.uid, collection, record, timestamp)
        storage.touch(user.uid, collection, timestamp)
      }),
    remove: (user, collection, ids) =>
      writeAt(user.uid, collection, (timestamp) => {
        if (ids === undefined) {
          storage.deleteCollection(user.uid, collection, timestamp)
          return batches.discard(user.uid, collection)
        }
        storage.deleteItems(user.uid, collection, ids)
        storage.touch(user.uid, collection, timestamp)
      }),
    seed(user, collection, count, seedOptions) {
      const earliest = storage.collectionTimestamp(user.uid, collection) + quantumMs
      load(user, collection, seedRecords(count, { earliest, now: clock.timestamp() }, seedOptions))
      clock.moveTo(storage.collectionTimestamp(user.uid, collection) + quantumMs)
    },
    reassign(user) {
      const row = accounts.move(user.email)
      if (row !== undefined) movedUids.add(row.uid)
    },
    async stop() {
      await Promise.all([tokenServer.stop(true), storageServer.stop(true)])
      storage.close()
    },
  }
}

const minPayloadBytes = 160

/**
 * Generates records that look encrypted but aren't. The ids for an empty collection are the same each time. Timestamps
 * are 10 ms apart, begin at `earliest` or later, and end at `now` if there is room.
 */
function* seedRecords(
  count: number,
  { earliest, now }: { earliest: number; now: number },
  { payloadBytes = 400, recordsPerTimestamp = 1 }: SeedOptions = {},
): Generator<TimedRecord> {
  const groups = Math.ceil(count / recordsPerTimestamp)
  const first = Math.max(earliest, now - groups * quantumMs)
  const noise = createNoise(Math.max(payloadBytes, minPayloadBytes))
  for (let index = 0; index < count; index += 1) {
    const digest = createHash('sha256').update(`${earliest} ${index}`).digest()
    yield {
      id: digest.subarray(0, 9).toString('base64url'),
      payload: fakePayload(digest, noise, payloadBytes),
      sortindex: digest.readUInt16BE(9) % 10_000,
      modified: first + Math.floor(index / recordsPerTimestamp) * quantumMs,
    }
  }
}

function fakePayload(digest: Buffer, noise: string, payloadBytes: number): string {
  const iv = digest.subarray(0, 16).toString('base64')
  const frame = `{"ciphertext":"","IV":"${iv}","hmac":"${digest.toString('hex')}"}`
  const room = Math.max(0, payloadBytes - frame.length)
  const start = digest.readUInt16BE(16) % 1000
  return `{"ciphertext":"${noise.slice(start, start + room)}","IV":"${iv}","hmac":"${digest.toString('hex')}"}`
}

// One long text that every ciphertext is cut from, because generating each one would take most of the time.
function createNoise(length: number): string {
  let text = ''
  for (let index = 0; text.length < length + 1000; index += 1) {
    text += createHash('sha512').update(`noise ${index}`).digest('base64').slice(0, 84)
  }
  return text
}

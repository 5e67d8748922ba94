import { randomBytes } from 'node:crypto'

import {
  Credentials,
  type CredentialsEvent,
  type CredentialsOptions,
  type CredentialStore,
} from '../../src/credentials/credentials.ts'
import { nowMs, secret, someCredentials, tokenServerUrl } from './identities.ts'
import type { Identity, SyncCredentials } from '../../src/domain/credentials.ts'

interface WorldOptions extends Partial<Omit<CredentialsOptions, 'store'>> {
  /** Has no shared store unless given; the words create one. */
  store?: 'memory' | 'broken' | 'never-writes' | CredentialStore
  /** The names of the token server's credentials: `<name>-1`, `<name>-2`. */
  name?: string
}

export type World = ReturnType<typeof startCredentials>

/** A process with its clocks, its token server, and its recorded actions. */
export function startCredentials({ store: kind, name = 'hawk', ...options }: WorldOptions = {}) {
  /** The users that the token server was called for. */
  const exchanges: Identity[] = []
  const events: CredentialsEvent[] = []
  /** What was written to a store that this world created. */
  const writes: Write[] = []
  const clock = new Clock()
  const store = typeof kind === 'string' ? recording(makeStore(kind), writes) : (kind ?? null)
  const exchange =
    options.exchange ?? (async () => someCredentials({ hawkId: `${name}-${exchanges.length}` }))
  const real = new Credentials({
    secret,
    tokenServerUrl,
    ttlSeconds: 300,
    now: () => clock.wallMs,
    monotonicNow: () => clock.monotonicMs,
    randomBytes: (count) => randomBytes(count),
    observe: (event) => events.push(event),
    ...options,
    store,
    exchange(identity, requestId) {
      exchanges.push(identity)
      return exchange(identity, requestId)
    },
  })
  /** For requests whose id does not matter. */
  const credentials = {
    obtain: async (identity: Identity) => (await real.obtain(identity, 'a-request')).credentials,
    renew: (identity: Identity, refused: SyncCredentials) => real.renew(identity, refused, 'a-request'),
  }
  /** Also returns the source. */
  const obtain: Credentials['obtain'] = (identity, requestId) => real.obtain(identity, requestId)
  return { credentials, obtain, store, exchanges, events, writes, clock, turns }
}

interface Write {
  key: string
  value: string
  ttlMs: number
}

class Clock {
  wallMs = nowMs
  monotonicMs = 1000

  advance(milliseconds: number): void {
    this.wallMs += milliseconds
    this.monotonicMs += milliseconds
  }

  setWall(milliseconds: number): void {
    this.wallMs = milliseconds
  }
}

function makeStore(kind: 'memory' | 'broken' | 'never-writes'): CredentialStore {
  const values = new Map<string, string>()
  // Without a clock: sealed values have their own end.
  const memory: CredentialStore = {
    get: async (key) => values.get(key) ?? null,
    set: async (key, value) => void values.set(key, value),
    delete: async (key) => void values.delete(key),
    ping: async () => true,
    close: async () => {},
  }
  const fail = () => Promise.reject(new Error('The store is broken'))
  switch (kind) {
    case 'memory':
      return memory
    case 'broken':
      return { ...memory, get: fail, set: fail, delete: fail }
    case 'never-writes':
      return { ...memory, set: () => new Promise(() => {}) }
    default:
      return kind satisfies never
  }
}

function recording(store: CredentialStore, writes: Write[]): CredentialStore {
  return {
    ...store,
    set(key, value, ttlMs) {
      writes.push({ key, value, ttlMs })
      return store.set(key, value, ttlMs)
    },
  }
}

/** Lets everything continue that waits for nothing external. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
}

/**
 * The state of a promise without waiting for anything external: null if fulfilled, the error message if rejected, or `waits`. No timer can
 * have fired and no response can have been read meanwhile, however busy the machine is.
 */
export async function outcomeSoFar(promise: Promise<unknown>): Promise<string | null> {
  const outcome = promise.then(
    () => null,
    (error: Error) => error.message,
  )
  return Promise.race([
    outcome,
    (async () => {
      for (let turn = 0; turn < 100; turn += 1) await Promise.resolve()
      return 'waits'
    })(),
  ])
}

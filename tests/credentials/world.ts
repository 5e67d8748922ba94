import { randomBytes } from 'node:crypto'

import { createMemoryStore } from '../support/memory-store.ts'
import { Credentials } from '../../src/credentials/credentials.ts'
import { nowMs, secret, someCredentials, tokenServerUrl } from './identities.ts'

import type { CredentialStore } from '../../src/credentials/shared-credentials.ts'
import type { CredentialsEvent, CredentialsOptions } from '../../src/credentials/credentials.ts'
import type { Identity, SyncCredentials } from '../../src/domain/credentials.ts'

interface WorldOptions extends Partial<Omit<CredentialsOptions, 'store'>> {
  /** Nothing shared unless given; the words make one. */
  store?: 'memory' | 'broken' | 'never-writes' | CredentialStore
  /** What the token server of this world calls its credentials: `<name>-1`, `<name>-2`. */
  name?: string
}

/** Credentials for a request that nobody asks the id of. */
interface PlainCredentials {
  obtain(identity: Identity): Promise<SyncCredentials>
  renew(identity: Identity, refused: SyncCredentials): Promise<SyncCredentials>
}

/** One process with its clocks, its token server and what it was seen to do. */
export interface World {
  credentials: PlainCredentials
  /** Where they were found, too. */
  obtain: Credentials['obtain']
  store: CredentialStore | null
  /** Whom the token server was asked about. */
  exchanges: Identity[]
  events: CredentialsEvent[]
  /** What was written to a store that this world made. */
  writes: { key: string; value: string; ttlMs: number }[]
  clock: Clock
  /** Lets everything go on that waits for nothing outside. */
  turns(): Promise<void>
}

export function startCredentials({ store: kind, name = 'hawk', ...options }: WorldOptions = {}): World {
  const exchanges: Identity[] = []
  const events: CredentialsEvent[] = []
  const writes: World['writes'] = []
  const clock = new Clock()
  const store = typeof kind === 'string' ? recording(makeStore(kind, clock), writes) : (kind ?? null)
  const exchange =
    options.exchange ?? (async () => someCredentials({ hawkId: `${name}-${exchanges.length}` }))
  const real = new Credentials({
    secret,
    tokenServerUrl,
    ttlSeconds: 300,
    wallClock: () => clock.wallMs,
    monotonicClock: () => clock.monotonicMs,
    randomBytes: (count) => randomBytes(count),
    observe: (event) => events.push(event),
    ...options,
    store,
    exchange(identity, requestId) {
      exchanges.push(identity)
      return exchange(identity, requestId)
    },
  })
  const credentials: PlainCredentials = {
    obtain: async (identity) => (await real.obtain(identity, 'a-request')).credentials,
    renew: (identity, refused) => real.renew(identity, refused, 'a-request'),
  }
  return {
    credentials,
    obtain: (identity, requestId) => real.obtain(identity, requestId),
    store,
    exchanges,
    events,
    writes,
    clock,
    turns,
  }
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

function makeStore(kind: 'memory' | 'broken' | 'never-writes', clock: Clock): CredentialStore {
  const memory = createMemoryStore({ clock: () => clock.monotonicMs })
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

function recording(store: CredentialStore, writes: World['writes']): CredentialStore {
  return {
    ...store,
    set(key, value, ttlMs) {
      writes.push({ key, value, ttlMs })
      return store.set(key, value, ttlMs)
    },
  }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
}

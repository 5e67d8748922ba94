import { encryptPayload, type KeyBundle, keysRecord, toKeyBundle } from './crypto.ts'
import { createRandom, type SampleRandom } from './sample-random.ts'
import {
  type ClearRecord,
  sampleBookmarks,
  sampleDevices,
  sampleForms,
  sampleHistory,
  samplePasswords,
  samplePreferences,
  seedRecords,
} from './sample-records.ts'
import type { SandboxUser } from './sandbox-user.ts'
import type { Sandbox } from './sandbox.ts'
import type { TimedRecord } from './storage.ts'
import { quantumMs } from './timestamps.ts'

/** How much sample data to create. */
interface SampleOptions {
  /** Only the keys and the list of engines, like an account that a Firefox without data has synced. @default false */
  isEmpty?: boolean
  /** Folders included. @default 300 */
  bookmarks?: number
  /** @default 3000 */
  history?: number
  /** Collections that get one more record, which no key decrypts. @default none */
  unreadable?: readonly string[]
}

const dayMs = 86_400_000
const uploadSize = 100
const ivBytes = 16
const engines = ['bookmarks', 'history', 'tabs', 'passwords', 'forms', 'prefs', 'clients']
const declined = ['addons', 'addresses', 'creditcards']

/**
 * Fills a user's empty store like months of Firefox use: encrypted records in the usual collections, their keys in
 * crypto/keys, and meta/global. Keys, ids and texts are the same each time for the same user; timestamps are before the
 * sandbox's time.
 */
export function fillSampleData(sandbox: Sandbox, user: SandboxUser, options: SampleOptions = {}): void {
  const { random, keys } = beginSample(user)
  const nowMs = Math.floor(sandbox.nowMs() / quantumMs) * quantumMs
  const startMs = nowMs - 200 * dayMs
  const keysPayload = encryptPayload(toKeyBundle(user.syncKey), keysRecord(keys), random.bytes(ivBytes))
  sandbox.load(user, 'meta', [{ id: 'global', payload: globalPayload(random, options), modified: startMs }])
  sandbox.load(user, 'crypto', [{ id: 'keys', payload: keysPayload, modified: startMs + 500 }])
  if (options.isEmpty) return
  const { clients, tabs } = sampleDevices(random)
  // How far back the uploads go, and the lifetime in days that Firefox gives each record.
  const collections: [name: string, records: ClearRecord[], days: number, lifeDays?: number][] = [
    ['clients', clients, 3, 21],
    ['bookmarks', sampleBookmarks(random, options.bookmarks ?? 300), 180],
    ['history', sampleHistory(random, options.history ?? 3000), 55, 60],
    ['tabs', tabs, 1, 7],
    ['passwords', samplePasswords(random), 150],
    ['forms', sampleForms(random), 30, 1095],
    ['prefs', samplePreferences(), 90],
  ]
  for (const [name, records, days, lifeDays] of collections) {
    const lifeMs = lifeDays === undefined ? null : lifeDays * dayMs
    const span = { fromMs: nowMs - days * dayMs, toMs: nowMs - 5000, lifeMs }
    sandbox.load(user, name, encryptAll(records, keys, random, span))
  }
  for (const name of options.unreadable ?? []) {
    const unknownKeys = { encryptionKey: random.bytes(32), hmacKey: random.bytes(32) }
    const id = random.id()
    const payload = encryptPayload(unknownKeys, { id }, random.bytes(ivBytes))
    sandbox.load(user, name, [{ id, payload, modified: startMs + 1000 }])
  }
}

/** Adds `count` records to a collection of a user with sample data, encrypted with the same keys. */
export function seedSampleData(sandbox: Sandbox, user: SandboxUser, collection: string, count: number): void {
  const { keys } = beginSample(user)
  const random = createRandom(`more ${collection} of ${user.clientState} since ${sandbox.nowMs()}`)
  const toMs = Math.floor(sandbox.nowMs() / quantumMs) * quantumMs
  const records = seedRecords(random, collection, count)
  sandbox.load(
    user,
    collection,
    encryptAll(records, keys, random, { fromMs: toMs - 5000, toMs, lifeMs: null }),
  )
}

// Draws the keys first, so that they can be reproduced.
function beginSample(user: SandboxUser): { random: SampleRandom; keys: KeyBundle } {
  const random = createRandom(`sample data of ${user.clientState}`)
  return { random, keys: { encryptionKey: random.bytes(32), hmacKey: random.bytes(32) } }
}

// Imitates uploads in batches: records of one batch share a timestamp, and batches are spread over the span. One record at a time, because
// a large sample need not be in memory twice.
function* encryptAll(
  records: ClearRecord[],
  keys: KeyBundle,
  random: SampleRandom,
  { fromMs, toMs, lifeMs }: { fromMs: number; toMs: number; lifeMs: number | null },
): Generator<TimedRecord> {
  const batchSize = Math.min(uploadSize, Math.max(1, Math.ceil(records.length / 12)))
  const batches = Math.ceil(records.length / batchSize)
  for (const [index, { id, content, sortindex = null }] of records.entries()) {
    const share = (Math.floor(index / batchSize) + 1) / batches
    const modified = Math.floor((fromMs + (toMs - fromMs) * share) / quantumMs) * quantumMs
    const payload = encryptPayload(keys, { id, ...content(modified) }, random.bytes(ivBytes))
    yield { id, payload, sortindex, modified, expiry: lifeMs === null ? null : modified + lifeMs }
  }
}

// Not encrypted, because clients read it before they have keys. Firefox deletes the collection of an engine whose
// version is older than its own.
function globalPayload(random: SampleRandom, { isEmpty }: SampleOptions): string {
  // In an empty account everything can be restored: Firefox deletes what it begins to sync.
  const synced = isEmpty ? [...engines, ...declined, 'extension-storage'] : engines
  const versions = synced.map((name) => {
    return [name, { version: name === 'bookmarks' || name === 'prefs' ? 2 : 1, syncID: random.id() }]
  })
  return JSON.stringify({
    syncID: random.id(),
    storageVersion: 5,
    engines: Object.fromEntries(versions),
    declined: isEmpty ? [] : declined,
  })
}

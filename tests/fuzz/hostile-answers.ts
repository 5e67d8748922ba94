import { keysRecord } from '../../src/sandbox/crypto.ts'
import { encryptRecord, keyPairFromHex, type ClearRecord } from '../../src/client/crypto.ts'
import { clearBookmark, clearFolder } from '../client/records.ts'
import { oddValues } from '../client/odd.ts'
import type { Chance } from './chance.ts'

const syncKey = '0123456789abcdef'.repeat(8)
const keys = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)] as const

/** The account of the records below. */
export const hostileAccount = {
  bridgeUrl: 'http://127.0.0.1:1',
  token: 't',
  keyId: '1500000000000-ASNFZ4mrze8BI0VniavN7w',
  syncKey,
}

const contents: Record<string, ClearRecord[]> = {
  bookmarks: [
    clearFolder('menu', 'places', ['aaaaaaaaaaaa', 'ffffffffffff']),
    clearFolder('unfiled', 'places', []),
    clearFolder('ffffffffffff', 'menu', []),
    clearBookmark('aaaaaaaaaaaa', 'menu', { tags: ['t'], keyword: 'k', dateAdded: 1_500_000_000_000 }),
  ],
  history: [
    {
      id: 'h',
      histUri: 'https://h.example/',
      title: 'H',
      visits: [{ date: 1_500_000_000_000_000, type: 1 }],
    },
  ],
  passwords: [{ id: '{p}', hostname: 'https://p.example', username: 'u', password: 'w', timeCreated: 1 }],
  forms: [{ id: 'f', name: 'q', value: 'v' }],
  tabs: [
    { id: 'd', clientName: 'Desk', tabs: [{ title: 'T', urlHistory: ['https://t.example/'], lastUsed: 1 }] },
  ],
  clients: [{ id: 'd', name: 'Desk', type: 'desktop', os: 'Linux', version: '1', formfactor: 'desktop' }],
  addresses: [{ id: 'a', entry: { name: 'N' } }],
  prefs: [{ id: 'p', value: { x: 1 } }],
  'extension-storage': [{ id: 'e', extId: 'x@y', data: '{}' }],
}

/** What a bridge answers, as it is before it is damaged. */
interface Answer {
  status: number
  headers: Record<string, string>
  body: unknown
}

/** An answer that is sent. */
interface Sent {
  status: number
  headers: Record<string, string>
  text: string
}

/** A bridge whose answers are damaged at random, also within the encrypted records. */
export class HostileBridge {
  /** How many answers were damaged. */
  damaged = 0

  constructor(
    private readonly chance: Chance,
    /** How many of 100 answers are damaged. */
    private readonly percent: number,
  ) {}

  async answer(url: string, body: string | undefined): Promise<Sent> {
    const { status, headers, body: whole } = await this.#whole(new URL(url), body)
    if (!this.chance.isTrue(this.percent / 100)) return { status, headers, text: JSON.stringify(whole) }
    this.damaged += 1
    return this.#damage({ status, headers, body: whole })
  }

  async #whole(url: URL, body: string | undefined): Promise<Answer> {
    const headers = { ETag: '"1500000000000"', 'Total-Records': '1' }
    const [, collection, id] = /\/collections\/([^/]+)\/records(?:\/(.+))?$/.exec(url.pathname) ?? []
    if (url.pathname.endsWith('/batch')) {
      const { requests } = JSON.parse(body!) as { requests: { path: string }[] }
      const responses = requests.map(({ path }) => {
        const data = { id: decodeURIComponent(path.split('/').at(-1)!), last_modified: 1_500_000_000_010 }
        return { status: 200, path, headers: { ETag: '"1500000000010"' }, body: { data } }
      })
      return {
        status: 200,
        headers: { ...headers, 'Preference-Applied': 'handling=strict' },
        body: { responses },
      }
    }
    if (url.pathname.endsWith('/collections')) {
      const data = ['crypto', 'meta', ...Object.keys(contents)].map((name) => ({
        id: name,
        last_modified: 1_500_000_000_000,
      }))
      return { status: 200, headers, body: { data } }
    }
    if (collection === undefined)
      return { status: 200, headers, body: { project_version: '1', settings: { batch_max_requests: 25 } } }
    const data = await this.#records(decodeURIComponent(collection))
    if (id !== undefined) return { status: 200, headers, body: { data: data[0] } }
    const isPaged = url.searchParams.has('_limit') && !url.searchParams.has('_token')
    const next = isPaged && { 'Next-Page': `${url.origin}${url.pathname}?_limit=2&_token=a` }
    return {
      status: 200,
      headers: { ...headers, 'Total-Records': String(data.length), ...next },
      body: { data },
    }
  }

  async #records(collection: string) {
    const stored = async (clear: ClearRecord, seal: (clear: ClearRecord) => Promise<string>) => {
      const content = this.chance.isTrue(0.2) ? (this.#changed(clear) as ClearRecord) : clear
      const payload = await seal(content)
      return { id: clear.id, last_modified: 1_500_000_000_000, payload }
    }
    if (collection === 'crypto') {
      const clear = { ...keysRecord({ encryptionKey: keys[0], hmacKey: keys[1] }), id: 'keys' }
      return [await stored(clear, (content) => encryptRecord(keyPairFromHex(syncKey), content))]
    }
    if (collection === 'meta') {
      const engines = Object.fromEntries(
        Object.keys(contents).map((name) => [name, { version: 1, syncID: 's' }]),
      )
      const clear = { id: 'global', syncID: 's', storageVersion: 5, engines }
      return [await stored(clear, (content) => Promise.resolve(JSON.stringify(content)))]
    }
    const pair = keyPairFromHex(Buffer.concat([...keys]).toString('hex'))
    const records = contents[collection] ?? []
    return Promise.all(records.map((clear) => stored(clear, (content) => encryptRecord(pair, content))))
  }

  #damage(answer: Answer): Sent {
    const { chance } = this
    const { status, headers, body } = answer
    const text = JSON.stringify(body)
    switch (chance.below(6)) {
      case 0:
        return {
          status,
          headers,
          text: chance.of(['', 'null', '7', '"x"', '[]', '{}', '<html>', '['.repeat(50_000)]),
        }
      case 1:
        return { status, headers, text: text.slice(0, chance.below(text.length)) }
      case 2:
        return {
          status: chance.of([201, 302, 304, 400, 401, 403, 404, 405, 412, 413, 429, 500, 503]),
          headers,
          text,
        }
      case 3: {
        const name = chance.of([
          'ETag',
          'Total-Records',
          'Next-Page',
          'Retry-After',
          'Backoff',
          'Content-Type',
          'Preference-Applied',
        ])
        const value = chance.of([
          '',
          '-1',
          '1e999',
          'nonsense',
          'http://[',
          '/x',
          '?',
          'http://other.example/?_token=b',
          '"9".9',
          '9'.repeat(400),
        ])
        const { [name]: _, ...others } = headers as Record<string, string>
        return { status, headers: chance.isTrue(0.3) ? others : { ...others, [name]: value }, text }
      }
      case 4: {
        const error = {
          code: chance.of(oddValues),
          errno: chance.of(oddValues),
          message: chance.of(oddValues),
        }
        return { status: chance.of([400, 401, 404, 412, 503]), headers, text: JSON.stringify(error) }
      }
      default:
        return { status, headers, text: JSON.stringify(this.#changed(body)) }
    }
  }

  /** The same value with one part replaced, removed or repeated. */
  #changed(value: unknown): unknown {
    const { chance } = this
    if (typeof value !== 'object' || value === null || chance.isTrue(0.15)) return chance.of(oddValues)
    const copy: unknown = structuredClone(value)
    const entries = copy as Record<string, unknown>
    const names = Object.keys(entries)
    if (names.length === 0) return chance.of(oddValues)
    const name = chance.of(names)
    const way = chance.below(10)
    if (way === 0) delete entries[name]
    else if (way === 1 && Array.isArray(copy)) copy.push(...copy.slice(0, 3))
    else entries[name] = this.#changed(entries[name])
    return copy
  }
}

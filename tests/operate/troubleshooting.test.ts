import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import { eventually } from '../support/eventually.ts'
import { runProgram } from '../support/processes.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { endAll, executablePath, iniText, makeFolder, type Bridge } from '../support/executable.ts'
import {
  ask,
  checkTls,
  put,
  records,
  seenAfterChange,
  seenBySlowReader,
  seenOfBatch,
  seenOfWorker,
  startTroubles,
  write,
  type Troubles,
} from './troubles.ts'

import type { Plan } from '../support/fault-proxy.ts'

const page = readFileSync(join(import.meta.dir, '../../docs/troubleshooting.md'), 'utf8')
/** The first cell of every row of its tables: a symptom. */
const symptoms = [...page.matchAll(/^\| (`.*?) \|/gm)].map(([, cell]) => cell!)

let troubles: Troubles
let redis: RedisServer

beforeAll(async () => {
  ;[troubles, redis] = await Promise.all([startTroubles(), startRedisServer()])
  for (const begin of Object.values(batches)) begin().catch(() => {})
})

afterEach(() => {
  for (const proxy of [troubles.tokens, troubles.storage]) {
    proxy.plan(() => null)
    proxy.release()
  }
  troubles.sandbox.switches.quotaKilobytes = null
})

afterAll(async () => {
  endAll()
  await redis.close()
  await troubles[Symbol.asyncDispose]()
})

const nowhere = { token_server_url: 'http://127.0.0.1:1' }
const withoutRedis = { cache_backend: 'redis', cache_url: 'redis://127.0.0.1:1' }

/** What a reader gets while the token server or the storage fails. */
const seenWhile = (target: 'tokens' | 'storage', plan: Plan) => () => {
  troubles[target].plan(plan)
  return troubles.seenByReader()
}

/** What a user gets after writing a record of this size. */
const seenByWriter = (settings: Record<string, string>, payload?: string) =>
  troubles.seen(settings, (bridge) => {
    const user = troubles.newUser()
    troubles.sandbox.write(user, 'tabs', [{ id: 'a', payload: 'x'.repeat(3000) }])
    return ask(bridge, `${records(user)}/b`, user, put(payload))
  })

/** Where a second bridge with the same Redis found the credentials of a user of the first, from before this action. */
function seenOfSecond(settings: Record<string, string>, act: () => Promise<unknown>): Promise<string> {
  const shared = { cache_backend: 'redis', cache_url: redis.url }
  const user = troubles.newUser()
  const headers = { Authorization: `Bearer ${user.bearerToken()}` }
  return troubles.seen(shared, async (first) => {
    const keysBefore = await redis.command('DBSIZE')
    await ask(first, records(user), user, { headers })
    // The response does not wait for Redis.
    await eventually('Redis has the credentials', async () => (await redis.command('DBSIZE')) !== keysBefore)
    await act()
    return troubles.seen({ ...shared, ...settings }, async (second) => {
      await ask(second, records(user), user, { headers })
      const metrics = await ask(second, '/v1/__metrics__', null)
      return metrics.match(/^sync_bridge_credentials_total.* [1-9].*$/gm)
    })
  })
}

/** Started at the first call. */
const once = <Result>(begin: () => Promise<Result>): (() => Promise<Result>) => {
  let begun: Promise<Result> | null = null
  return () => (begun ??= begin())
}

const away = { kind: 'reset-before' } as const

/** These take the 10 or 20 s in which a commit and an undo are retried, so they run concurrently with the others. */
const batches = {
  '`batch.partial`': once(() => {
    let isCommitted = false
    const plan: Plan = ({ method, target }) => {
      if (isCommitted) return away
      isCommitted = method === 'POST' && !target.includes('batch=true')
      return null
    }
    return seenOfBatch([write('tabs'), write('forms')], plan, 'batch.partial')
  }),
  '`batch.unknown`': once(() => {
    let isLost = false
    const plan: Plan = ({ method }) => {
      if (isLost) return away
      isLost = method === 'POST'
      return isLost ? { kind: 'reset-after' } : null
    }
    return seenOfBatch([write('tabs')], plan, 'batch.unknown')
  }),
}

/** How to cause each symptom; the result contains what the page shows for it. */
const cases: Record<string, () => Promise<string>> = {
  ...batches,
  '`exit code 2`, `1 problem with the settings`': () => troubles.run(['serve'], { prot: '1' }),
  '`exit code 2`, `cannot be read`': () => troubles.run(['serve'], {}, true),
  '`cannot listen on`, `the port is in use`': async () => {
    await using other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
    return await troubles.run(['serve'], { port: String(other.port) })
  },
  '`max_concurrent_requests`, `may only open`': () => {
    const cwd = makeFolder({ 'bridge.ini': iniText(nowhere) })
    const script = `ulimit -n 1000; exec "${executablePath}" check --offline --config bridge.ini`
    return runProgram(['sh', '-c', script], { cwd })
  },
  '`settings refused`, `settings kept`': () => seenAfterChange('settings kept', { backoff: 'much' }),
  '`settings need a restart`': () =>
    seenAfterChange('settings need a restart', { max_request_bytes: '1000000' }),
  '`the new executable needs a restart`': () =>
    seenAfterChange('the new executable needs a restart', 'executable'),
  '`token server: `, `nothing listens there`': () => troubles.run(['check'], nowhere),
  '`token server: `, `check token_server_url`': () => {
    troubles.tokens.plan(() => ({ kind: 'status', status: 404 }))
    return troubles.run(['check'])
  },
  '`token server: `, `unknown authority`': () => checkTls(troubles, 'IP:127.0.0.1', false),
  '`token server: `, `for another host`': () => checkTls(troubles, 'DNS:other.example', true),
  '`cache: no response`': () => troubles.run(['check'], withoutRedis),
  '`cache: refuses commands`': async () => {
    await redis.command('ACL', 'SETUSER', 'reader', 'on', 'nopass', '~*', '+ping', '+get')
    const cache_url = redis.url.replace('//', '//reader:any@')
    return troubles.run(['check'], { cache_backend: 'redis', cache_url })
  },
  '`503`, `"storage":false`': () => troubles.seenByReader(nowhere, '/__heartbeat__'),
  '`503`, `"cache":false`': () => troubles.seenByReader(withoutRedis, '/__heartbeat__'),
  '`401`, `errno 104`': () =>
    troubles.seenByReader({}, `/v1/buckets/${'0'.repeat(32)}/collections/tabs/records`),
  '`401`, `errno 105`, `token server cannot verify`': () =>
    troubles.seen({}, (bridge) => {
      const user = troubles.newUser()
      return ask(bridge, records(user), user, { headers: { Authorization: 'Bearer ended' } })
    }),
  '`401`, `errno 105`, `clocks of client and token server differ`': () =>
    troubles.seen({}, (bridge) => {
      const user = troubles.newUser()
      const Authorization = `BrowserID ${user.assertion({ expiresInSeconds: -600 })}`
      return ask(bridge, records(user), null, { headers: { Authorization, 'X-KeyID': user.keyId } })
    }),
  '`401`, `errno 105`, `The storage rejected`': seenWhile('storage', () => ({
    kind: 'status',
    status: 401,
    body: '0',
  })),
  '`405`, `errno 115`, `record_tabs_put_enabled is off`': () =>
    seenByWriter({ record_tabs_put_enabled: 'false' }),
  '`400`, `errno 107`, `not allowed by service.cors_origins`': () =>
    troubles.seenByReader({ cors_origins: 'https://a.example' }, '/v1/', {
      headers: { Origin: 'https://b.example' },
    }),
  '`403`, `errno 121`': () => {
    troubles.sandbox.switches.quotaKilobytes = 1
    return seenByWriter({})
  },
  '`404`, `errno 111` for `/v1/__metrics__`': async () =>
    `/v1/__metrics__ ${await troubles.seenByReader({ metrics_enabled: 'false' }, '/v1/__metrics__')}`,
  '`410`, `errno 202`': () => troubles.seenByReader({ eos: '2020-01-01' }),
  '`413`, `errno 113`': () => seenByWriter({ max_request_bytes: '300000' }, 'x'.repeat(300_000)),
  '`Next-Page: http://127.0.0.1`': () =>
    troubles.seen({}, (bridge) => {
      const user = troubles.newUser()
      troubles.sandbox.seed(user, 'tabs', 3)
      return ask(bridge, `${records(user)}?_limit=1`, user)
    }),
  '`upstream failed`, `unreachable`': () => troubles.seenByReader(nowhere),
  '`upstream failed`, `timeout`': seenWhile('storage', () => ({ kind: 'hang' })),
  '`upstream failed`, `bad-response`': seenWhile('tokens', () => ({
    kind: 'status',
    status: 200,
    body: '<html>',
  })),
  '`upstream failed`, `The storage returned 500`': seenWhile('storage', () => ({
    kind: 'status',
    status: 500,
  })),
  '`upstream failed`, `token server returned 503`': seenWhile('tokens', () => ({
    kind: 'status',
    status: 503,
    headers: { 'Retry-After': '60' },
  })),
  '`requests rejected`, `limit`': () =>
    troubles.seen({ max_concurrent_requests: '1' }, (bridge) => {
      troubles.storage.plan(() => ({ kind: 'hang' }))
      const users = Array.from({ length: 3 }, troubles.newUser)
      return Promise.all(users.map((user) => ask(bridge, records(user), user)))
    }),
  '`requests rejected`, `user`': () =>
    troubles.seen({ max_concurrent_requests_per_user: '1' }, (bridge) => {
      troubles.storage.plan(() => ({ kind: 'hang' }))
      const user = troubles.newUser()
      return Promise.all([1, 2, 3].map(() => ask(bridge, records(user), user)))
    }),
  '`redis error`, `refused`': async () => {
    await redis.command('ACL', 'SETUSER', 'unable', 'on', 'nopass', '~*', '+ping')
    const cache_url = redis.url.replace('//', '//unable:any@')
    const asReader = (bridge: Bridge) => {
      const user = troubles.newUser()
      return ask(bridge, records(user), user)
    }
    return troubles.seen({ cache_backend: 'redis', cache_url }, asReader, 'redis error')
  },
  '`statsd error`': () =>
    troubles.seen({ statsd_url: 'udp://statsd.invalid:8125' }, async () => {}, 'statsd error'),
  '`redis error`, `unreachable`': () => troubles.seen(withoutRedis, async () => {}, 'redis error'),
  '`redis error`, `WRONGPASS`': () => {
    const cache_url = redis.url.replace('//', '//bridge:wrong@')
    return troubles.seen({ cache_backend: 'redis', cache_url }, async () => {}, 'redis error')
  },
  '`sync_bridge_credentials_total{event="exchange"}` at every bridge that a user meets': () =>
    seenOfSecond({ cache_hmac_secret: 'cd'.repeat(32) }, async () => {}),
  '`sync_bridge_credentials_total{event="rejected-entry"}`': () =>
    seenOfSecond({}, async () => {
      const keys = (await redis.command('KEYS', '*')) as string[]
      await Promise.all(keys.map((key) => redis.command('SET', key, 'something else')))
    }),
  '`list.broken`': () => {
    const user = troubles.newUser()
    troubles.sandbox.seed(user, 'tabs', 5000, { payloadBytes: 1000 })
    troubles.storage.plan(() => ({ kind: 'reset-mid-body', afterBytes: 2_000_000 }))
    return troubles.seen({}, (bridge) => ask(bridge, records(user), user), 'list.broken')
  },
  '`worker hangs`': () => seenOfWorker(troubles, 'SIGSTOP', 'worker hangs'),
  '`worker lost`': () => seenOfWorker(troubles, 'SIGKILL', 'worker lost'),
  '`log lines dropped`': seenBySlowReader,
}

describe('the page "When it does not work"', () => {
  it('has a case for every line, and a line for every case', () => {
    expect(Object.keys(cases).toSorted()).toEqual(symptoms.toSorted())
  })

  it.each(symptoms)('shows %s as it appears', async (symptom) => {
    const output = await cases[symptom]!()

    for (const [, part] of symptom.matchAll(/`([^`]+)`/g)) expect(output).toContain(part!)
  })

  it('names metrics that exist', async () => {
    const metrics = await troubles.seenByReader({}, '/v1/__metrics__')
    const named = [...page.matchAll(/`(sync_bridge_\w+)/g)].map(([, name]) => name!)

    expect(named.filter((name) => !metrics.includes(`# TYPE ${name} `))).toEqual([])
  })
})

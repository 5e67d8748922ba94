import { describe, expect, it } from 'bun:test'

import { endpointText, readEndpoint, readRedisAddress } from '../../src/credentials/redis-address.ts'

import type { RedisAddress } from '../../src/credentials/redis-address.ts'

describe('readRedisAddress', () => {
  it('reads every form', () => {
    const local = { host: '127.0.0.1', port: 6379 }
    const plain: RedisAddress = { kind: 'server', endpoints: [local], database: 0, tls: false }
    const forms: Record<string, RedisAddress> = {
      'redis://127.0.0.1:6379/0': plain,
      'redis://127.0.0.1': plain,
      'redis://127.0.0.1/': plain,
      'redis://cache.example:7000/12': {
        ...plain,
        endpoints: [{ host: 'cache.example', port: 7000 }],
        database: 12,
      },
      'redis://[::1]:7000/1': { ...plain, endpoints: [{ host: '::1', port: 7000 }], database: 1 },
      'redis://[2001:db8::7]': { ...plain, endpoints: [{ host: '2001:db8::7', port: 6379 }] },
      'redis://:p%40ss@127.0.0.1': { ...plain, password: 'p@ss' },
      'redis://user:p%2Fss@127.0.0.1/3': { ...plain, username: 'user', password: 'p/ss', database: 3 },
      'rediss://127.0.0.1': { ...plain, tls: {} },
      'rediss://127.0.0.1?cacert=-----BEGIN%20X%0A': { ...plain, tls: { ca: '-----BEGIN X\n' } },
      'rediss://127.0.0.1/2?cacert=x': { ...plain, tls: { ca: 'x' }, database: 2 },
      'unix:///run/redis.sock': { ...plain, endpoints: [{ path: '/run/redis.sock' }] },
      'redis+unix:///run/a%20b.sock?db=4': { ...plain, endpoints: [{ path: '/run/a b.sock' }], database: 4 },
      'unix://user:p%40ss@/run/redis.sock': {
        ...plain,
        endpoints: [{ path: '/run/redis.sock' }],
        username: 'user',
        password: 'p@ss',
      },
      'redis+sentinel://:p@a:26380,[::1],b/the%20master/7': {
        kind: 'sentinel',
        endpoints: [
          { host: 'a', port: 26380 },
          { host: '::1', port: 26379 },
          { host: 'b', port: 26379 },
        ],
        master: 'the master',
        password: 'p',
        database: 7,
        tls: false,
      },
      'rediss+sentinel://a/m?cacert=x': {
        kind: 'sentinel',
        endpoints: [{ host: 'a', port: 26379 }],
        master: 'm',
        database: 0,
        tls: { ca: 'x' },
      },
      'redis+cluster://u:p@a,b:7000': {
        kind: 'cluster',
        endpoints: [
          { host: 'a', port: 6379 },
          { host: 'b', port: 7000 },
        ],
        username: 'u',
        password: 'p',
        database: 0,
        tls: false,
      },
      'rediss+cluster://a/': {
        kind: 'cluster',
        endpoints: [{ host: 'a', port: 6379 }],
        database: 0,
        tls: {},
      },
    }

    for (const [url, address] of Object.entries(forms)) {
      expect({ url, ...readRedisAddress(url) }).toEqual({ url, ...address })
    }
  })

  it('answers null for anything else', () => {
    const wrong = [
      '',
      'garbage-hunter2',
      'http://:hunter2@127.0.0.1',
      'redis://:hunter2@127.0.0.1:port',
      'redis://:hunter2@127.0.0.1:99999',
      'redis://:hunter2@127.0.0.1/database',
      'redis://:hunter2%@127.0.0.1',
      'unix://:hunter2@',
      'unix://:hunter2@/run/redis.sock?db=x',
      'unix://:hunter2%@/run/redis.sock',
      'redis://:hunter2@a,b',
      'redis://:hunter2@a/1/2',
      'redis://:hunter2@a?cacert=x',
      'redis://:hunter2@a?password=x',
      'redis+sentinel://:hunter2@a',
      'redis+sentinel://:hunter2@a,/m',
      'redis+sentinel://:hunter2@a/m/x',
      'redis+sentinel://:hunter2@a/m%',
      'redis+cluster://:hunter2@a/1',
      'redis+cluster://:hunter2@a,b:0',
      'redis+other://:hunter2@a',
    ]

    expect(wrong.map(readRedisAddress)).toEqual(wrong.map(() => null))
  })
})

describe('readEndpoint', () => {
  it('reads what endpointText writes', () => {
    for (const text of ['a:1', '127.0.0.1:6379', '[::1]:65535']) {
      expect(endpointText(readEndpoint(text, 0)!)).toBe(text)
    }
  })

  it('refuses what names no server', () => {
    for (const text of ['', ':1', 'a:0', 'a:65536', 'a', 'a b:1', '[x]:1', 'a:1:2']) {
      expect(readEndpoint(text, 0)).toBeNull()
    }
  })
})

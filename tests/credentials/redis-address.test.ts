import { describe, expect, it } from 'bun:test'

import { readRedisAddress } from '../../src/credentials/redis-address.ts'

import type { RedisAddress } from '../../src/credentials/redis-address.ts'

describe('readRedisAddress', () => {
  it('reads every form', () => {
    const local = { host: '127.0.0.1', port: 6379, tls: false }
    const forms: Record<string, RedisAddress> = {
      'redis://127.0.0.1:6379/0': { socket: local, database: 0 },
      'redis://127.0.0.1': { socket: local, database: 0 },
      'redis://127.0.0.1/': { socket: local, database: 0 },
      'redis://cache.example:7000/12': {
        socket: { host: 'cache.example', port: 7000, tls: false },
        database: 12,
      },
      'rediss://cache.example': { socket: { host: 'cache.example', port: 6379, tls: true }, database: 0 },
      'redis://[::1]:7000/1': { socket: { host: '::1', port: 7000, tls: false }, database: 1 },
      'redis://[2001:db8::7]': { socket: { host: '2001:db8::7', port: 6379, tls: false }, database: 0 },
      'redis://:p%40ss@127.0.0.1': { socket: local, password: 'p@ss', database: 0 },
      'redis://user:p%2Fss@127.0.0.1/3': { socket: local, username: 'user', password: 'p/ss', database: 3 },
      'unix:///run/redis.sock': { socket: { path: '/run/redis.sock', tls: false }, database: 0 },
      'redis+unix:///run/a%20b.sock?db=4': { socket: { path: '/run/a b.sock', tls: false }, database: 4 },
      'unix://user:p%40ss@/run/redis.sock': {
        socket: { path: '/run/redis.sock', tls: false },
        username: 'user',
        password: 'p@ss',
        database: 0,
      },
    }

    for (const [url, address] of Object.entries(forms)) {
      expect({ url, ...readRedisAddress(url) }).toEqual({ url, ...address })
    }
  })

  it('refuses anything else without showing it', () => {
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
    ]

    for (const url of wrong) {
      const error = refusalOf(url)
      expect(error?.message).toStartWith('Cannot read the address of the credential cache: expected redis://')
      expect(Bun.inspect(error)).not.toContain('hunter2')
    }
  })
})

function refusalOf(url: string): Error | null {
  try {
    readRedisAddress(url)
    return null
  } catch (error) {
    return error as Error
  }
}

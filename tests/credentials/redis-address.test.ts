import { describe, expect, it } from 'bun:test'

import { readRedisAddress } from '../../src/credentials/redis-address.ts'

const local = [{ host: '127.0.0.1', port: 6379 }]
const plain = { kind: 'server', endpoints: local, database: 0, tls: false }
const unix = (path: string) => ({ ...plain, endpoints: [{ path }] })
const at = (host: string, port: number) => [{ host, port }]
const sentinel = { ...plain, kind: 'sentinel', endpoints: at('a', 26379), master: 'm', sentinelLogin: {} }
const cluster = { ...plain, kind: 'cluster', endpoints: at('a', 6379) }

describe('readRedisAddress', () => {
  it.each<[string, object]>([
    ['redis://127.0.0.1:6379/0', plain],
    ['redis://127.0.0.1', plain],
    ['redis://127.0.0.1/', plain],
    ['redis://cache.example:7000/12', { ...plain, endpoints: at('cache.example', 7000), database: 12 }],
    ['redis://[::1]:7000/1', { ...plain, endpoints: at('::1', 7000), database: 1 }],
    ['redis://[2001:db8::7]', { ...plain, endpoints: at('2001:db8::7', 6379) }],
    ['redis://:p%40ss@127.0.0.1', { ...plain, password: 'p@ss' }],
    ['redis://u:p%2Fss@127.0.0.1/3', { ...plain, username: 'u', password: 'p/ss', database: 3 }],
    ['rediss://127.0.0.1', { ...plain, tls: {} }],
    ['rediss://127.0.0.1?cacert=-----BEGIN%20X%0A', { ...plain, tls: { ca: '-----BEGIN X\n' } }],
    ['rediss://127.0.0.1/2?cacert=x', { ...plain, tls: { ca: 'x' }, database: 2 }],
    ['unix:///run/redis.sock', unix('/run/redis.sock')],
    ['redis+unix:///run/a%20b.sock?db=4', { ...unix('/run/a b.sock'), database: 4 }],
    ['unix://u:p%40ss@/run/redis.sock', { ...unix('/run/redis.sock'), username: 'u', password: 'p@ss' }],
    ['redis+sentinel://a/m', sentinel],
    [
      'redis+sentinel://:p@a:26380,[::1],b/the%20master/7',
      {
        ...sentinel,
        endpoints: [...at('a', 26380), ...at('::1', 26379), ...at('b', 26379)],
        master: 'the master',
        password: 'p',
        sentinelLogin: { password: 'p' },
        database: 7,
      },
    ],
    ['rediss+sentinel://a/m?cacert=x', { ...sentinel, tls: { ca: 'x' } }],
    [
      'rediss+sentinel://u:p@a/m?cacert=x&sentinel_user=s&sentinel_password=p%26q',
      {
        ...sentinel,
        username: 'u',
        password: 'p',
        sentinelLogin: { username: 's', password: 'p&q' },
        tls: { ca: 'x' },
      },
    ],
    [
      'redis+cluster://u:p@a,b:7000',
      { ...cluster, endpoints: [...at('a', 6379), ...at('b', 7000)], username: 'u', password: 'p' },
    ],
    ['rediss+cluster://a/', { ...cluster, tls: {} }],
  ])('reads %s', (url, address) => {
    expect<object | null>(readRedisAddress(url)).toEqual(address)
  })

  it('returns null for anything else', () => {
    const wrong = `
      garbage-hunter2
      http://:hunter2@127.0.0.1
      redis://:hunter2@127.0.0.1:port redis://:hunter2@127.0.0.1:99999
      redis://:hunter2@127.0.0.1/database redis://:hunter2@a/1/2 redis://:hunter2@a,b
      redis://:hunter2%@127.0.0.1
      redis://:hunter2@a?cacert=x redis://:hunter2@a?password=x redis://:hunter2@a?sentinel_password=p
      rediss://:hunter2@a?cacert= rediss://:hunter2@a?cacert
      unix://:hunter2@ unix://:hunter2@/run/redis.sock?db=x unix://:hunter2%@/run/redis.sock
      redis+sentinel://:hunter2@a redis+sentinel://:hunter2@a,/m redis+sentinel://:hunter2@a/m/x
      redis+sentinel://:hunter2@a/m% redis+sentinel://:hunter2@a/m?sentinel_user=u
      redis+sentinel://:hunter2@a/m?sentinel_password=% redis+sentinel://:hunter2@a/m?sentinel_password=
      redis+cluster://:hunter2@a/1 redis+cluster://:hunter2@a,b:0
      redis+other://:hunter2@a`.split(/\s+/)

    expect(wrong.filter((url) => readRedisAddress(url) !== null)).toEqual([])
  })
})

import { describe, expect, it } from 'bun:test'
import { checkAccount, formatAccount, parseAccount, type Account } from '../../src/client/account.ts'
import { formerKeysAfter, keyFor } from '../../src/client/former-keys.ts'
import type { ClientError } from '../../src/client/errors.ts'

const keyId = '1500000000000-ASNFZ4mrze8BI0VniavN7w'
const bucket = '0123456789abcdef0123456789abcdef'
const none = {
  bridgeUrl: '',
  refreshToken: '',
  tokenEndpoint: '',
  clientId: '',
  tokenServerUrl: '',
  formerKeys: '',
  file: '',
}
const good: Account = { ...none, token: 'eyJ0.e30.x', keyId, bucket, syncKey: '00'.repeat(64) }

function check(given: Partial<Account>): Account | string {
  try {
    return checkAccount({ ...good, ...given })
  } catch (error) {
    const { field, message } = error as ClientError
    return `${field}: ${message}`
  }
}

describe('checkAccount', () => {
  it('accepts values with surrounding characters from copying', () => {
    const copied = [
      { token: ' Bearer eyJ0.e30.x\n' },
      { token: '"eyJ0.e30.x"', keyId: `'${keyId}'`, bucket: `“${bucket}”`, syncKey: `"${good.syncKey}"` },
      { bucket: '' },
      { bucket: bucket.toUpperCase() },
      { syncKey: `${'A'.repeat(86)}==` },
    ]

    expect(copied.map(check)).toEqual(copied.map(() => good))
  })

  it.each([
    ['token', { token: '' }, 'missing'],
    ['token', { token: 'eyJ0…e30' }, '“…”'],
    ['token', { token: 'eyJ0.e30.x KEY' }, 'a space'],
    ['keyId', { keyId: keyId.slice(0, -1) }, '22 characters'],
    ['bucket', { bucket: bucket.replace('0', 'f') }, 'another account'],
    ['syncKey', { syncKey: '00' }, '128 hexadecimal digits'],
    ['bridgeUrl', { bridgeUrl: 'localhost:8000' }, 'https:// or http://'],
    ['bridgeUrl', { bridgeUrl: 'https://bridge.example/?x=1' }, 'query'],
  ])('names the field %s for %j', (field, typed, words) => {
    expect(check(typed)).toStartWith(`${field}: `)
    expect(check(typed)).toContain(words)
  })

  it.each([
    'https://me:word@bridge.example',
    'me:word@bridge.example',
    'ftp://me:word@a',
    'http://me:1/word@a',
  ])('rejects the address %j without showing its password', (bridgeUrl) => {
    expect(check({ bridgeUrl })).toStartWith('bridgeUrl: ')
    expect(check({ bridgeUrl })).not.toContain('word@')
  })

  it('requires no sync key if nothing is decrypted, and keeps what renews a token', () => {
    const more = {
      bridgeUrl: 'http://127.0.0.1:8000/sync',
      refreshToken: 'r',
      tokenEndpoint: 'https://accounts.example/v1/token',
      clientId: 'c',
      tokenServerUrl: 'https://tokens.example',
    }

    expect(check({ ...more, syncKey: '' })).toEqual({ ...good, ...more, syncKey: '' })
  })
})

describe('parseAccount', () => {
  it('finds the values among other lines, exported and quoted or not', () => {
    const text = `export BUCKET="ab"\nKEY_ID='1-x'\nOTHER=http://x\nBEARER_TOKEN=Bearer t.t\nSYNC_KEY=00`

    expect(parseAccount(text)).toEqual({ bucket: 'ab', keyId: '1-x', token: 'Bearer t.t', syncKey: '00' })
    expect(parseAccount('eyJhbGciOi.a.b')).toEqual({})
  })

  it('ignores comments, like shells', () => {
    const text = '\uFEFFKEY_ID=1-x\r\n# KEY_ID=2-x\r\n\t#BRIDGE_URL=http://127.0.0.1:8000\r\n'

    expect(parseAccount(text)).toEqual({ keyId: '1-x' })
  })

  it('keeps invalid escapes unchanged', () => {
    expect(parseAccount('BEARER_TOKEN=a%zz')).toEqual({ token: 'a%zz' })
  })

  it('reads what formatAccount writes, which omits empty values', () => {
    const account = {
      ...good,
      bridgeUrl: 'http://127.0.0.1:8000',
      refreshToken: 'r',
      tokenEndpoint: 'https://a/v1',
    }

    const text = formatAccount(account)

    expect(text.split('\n').map((line) => line.split('=')[0])).toEqual([
      'BRIDGE_URL', 'BEARER_TOKEN', 'KEY_ID', 'BUCKET', 'SYNC_KEY', 'REFRESH_TOKEN', 'TOKEN_ENDPOINT', '',
    ]) // prettier-ignore
    expect(checkAccount(parseAccount(text))).toEqual(account)
  })

  it('writes nothing that a shell would run', () => {
    const ran = (value: string) => () => formatAccount({ ...good, clientId: value })

    for (const value of ["a'$(id)'", 'a b', 'a\n', 'é']) expect(ran(value)).toThrow('CLIENT_ID contains')
    expect(ran('$(id)`id`')()).toContain("CLIENT_ID='$(id)`id`'\n")
  })
})

describe('keyFor', () => {
  const ids = ['1', '2', '3'].map((digit) => `160000000000${digit}-ASNFZ4mrze8BI0VniavN7w`)
  const keys = ['11', '22', '33'].map((pair) => pair.repeat(64))

  it('finds the key of every key id that the account has had, written to a file and read again', () => {
    let account: Partial<Account> = {}
    for (const [index, id] of ids.entries())
      account = { keyId: id, syncKey: keys[index], formerKeys: formerKeysAfter(account, id) }
    const read = parseAccount(formatAccount(account))

    expect(ids.map((id) => keyFor(read, id))).toEqual(keys)
    expect(keyFor(read, `${ids[0]}==`)).toBe(keys[0]!)
    expect(keyFor(read, keyId)).toBeNull()
    expect(formerKeysAfter(read, ids[2]!)).toBe(read.formerKeys!)
    expect(keyFor({}, keyId)).toBeNull()
  })

  it('skips former keys that are damaged', () => {
    const formerKeys = `${ids[0]}:${keys[0]},${ids[1]}:22,x,${ids[2]}:${keys[2]}`

    expect(ids.map((id) => keyFor({ formerKeys }, id))).toEqual([keys[0]!, null, keys[2]!])
  })
})

import { describe, expect, it } from 'bun:test'
import {
  bucketOf,
  readCredentials,
  readLines,
  type Credentials,
  type Trouble,
} from '../../src/explorer/credentials.ts'

const keyId = '1500000000000-ASNFZ4mrze8BI0VniavN7w'
const bucket = '0123456789abcdef0123456789abcdef'
const good: Credentials = { token: 'eyJ0.e30.x', keyId, bucket, syncKey: '00'.repeat(64) }

function read(typed: Partial<Credentials>): Credentials | string {
  const form = new FormData()
  for (const [name, value] of Object.entries({ ...good, ...typed })) form.set(name, value)
  try {
    return readCredentials(form)
  } catch (error) {
    const { field, message } = error as Trouble
    return `${field}: ${message}`
  }
}

describe('readCredentials', () => {
  it('takes values with what comes along when they are copied', () => {
    const copied = [
      { token: ' Bearer eyJ0.e30.x\n' },
      { token: '"eyJ0.e30.x"', keyId: `'${keyId}'`, bucket: `“${bucket}”`, syncKey: `"${good.syncKey}"` },
      { bucket: '' },
      { bucket: bucket.toUpperCase() },
      { syncKey: `${'A'.repeat(86)}==` },
    ]

    expect(copied.map(read)).toEqual(copied.map(() => good))
  })

  it.each([
    ['token', { token: '' }, 'missing'],
    ['token', { token: 'Bearer ' }, 'missing'],
    ['token', { token: 'eyJ0…e30' }, '“…”'],
    ['token', { token: 'eyJ0\u{1f511}' }, '“\u{1f511}”'],
    ['token', { token: 'eyJ0.e30.x KEY' }, 'a space'],
    ['keyId', { keyId: keyId.slice(0, -1) }, '22 characters'],
    ['keyId', { keyId: '' }, '22 characters'],
    ['bucket', { bucket: bucket.replace('0', 'f') }, 'another account'],
    ['bucket', { bucket: 'default' }, 'another account'],
    ['syncKey', { syncKey: '00' }, '64 bytes'],
  ])('names the field %s for %j', (field, typed, words) => {
    expect(read(typed)).toStartWith(`${field}: `)
    expect(read(typed)).toContain(words)
  })
})

describe('readLines', () => {
  it('finds the four values among other lines, exported and quoted or not', () => {
    const text = `export BUCKET="ab"\nKEY_ID='1-x'\nBRIDGE_URL=http://x\nBEARER_TOKEN=Bearer t.t\nSYNC_KEY=00`

    expect(readLines(text)).toEqual({ bucket: 'ab', keyId: '1-x', token: 'Bearer t.t', syncKey: '00' })
    expect(readLines('eyJhbGciOi.a.b')).toEqual({})
  })

  it('takes what is no escape as it is', () => {
    expect(readLines('BEARER_TOKEN=a%zz')).toEqual({ token: 'a%zz' })
  })
})

describe('bucketOf', () => {
  it('is the second half of a key id, and empty for what is none', () => {
    expect(bucketOf(keyId)).toBe(bucket)
    expect(bucketOf('ASNFZ4mrze8BI0VniavN7w')).toBe('')
  })
})

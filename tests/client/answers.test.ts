import { describe, expect, it } from 'bun:test'
import {
  readCollections,
  readInfo,
  readNextQuery,
  readRecords,
  readResponses,
  readTimestamp,
  readTotal,
} from '../../src/client/answers.ts'
import { ClientError } from '../../src/client/errors.ts'

const record = { id: 'a', last_modified: 1, payload: '{}' }

describe('what is not the answer of a bridge', () => {
  it.each([
    ['no number of records', () => readTotal(new Headers())],
    ['a number of records in words', () => readTotal(new Headers({ 'Total-Records': 'many' }))],
    ['a negative number of records', () => readTotal(new Headers({ 'Total-Records': '-1' }))],
    ['an endless number', () => readTimestamp(new Headers({ ETag: `"${'9'.repeat(400)}"` }))],
    ['a next page without an address', () => readNextQuery(new Headers({ 'Next-Page': '/x?_token=a' }))],
    ['a next page without a query', () => readNextQuery(new Headers({ 'Next-Page': 'https://x.example/' }))],
    ['no list', () => readRecords({ data: record })],
    ['no record', () => readRecords({ data: [null] })],
    ['a record without an id', () => readRecords({ data: [{ ...record, id: 7 }] })],
    ['a record without a timestamp', () => readRecords({ data: [{ ...record, last_modified: '1' }] })],
    ['a timestamp after the end of time', () => readRecords({ data: [{ ...record, last_modified: 1e300 }] })],
    ['a payload that is not text', () => readRecords({ data: [{ ...record, payload: {} }] })],
    ['collections that are none', () => readCollections({ data: { length: 1 } }, new Headers())],
  ])('is an error: %s', (_, read) => {
    expect(read).toThrow(ClientError)
    expect(read).toThrow('The bridge sent an unexpected response')
  })

  it('is no response to a transaction', () => {
    const requested = [{ method: 'PUT', path: '/a', id: 'a' }]
    const whole = { status: 200, path: '/v1/a', headers: {}, body: { data: record } }
    const refused = { ...whole, status: 412, body: {} }

    expect(readResponses({ responses: [whole] }, requested)).toEqual([whole])
    expect(readResponses({ responses: [refused] }, requested)).toEqual([refused])
    for (const wrong of [null, { ...whole, status: '200' }, { ...whole, body: {} }])
      expect(readResponses({ responses: [wrong] }, requested)).toBeNull()
  })

  it.each(['many', 0, -1, 2.5])('is ignored in the root view: %p', (batch_max_requests) => {
    const odd = { project_version: { toString: 1 }, settings: { batch_max_requests } }

    expect(readInfo(odd)).toEqual({ version: '', maxRequests: 25 })
  })
})

import { describe, expect, it } from 'bun:test'
import { UpstreamError } from '../../../src/domain/errors.ts'
import { RequestObserver } from '../../../src/cli/data/request-observer.ts'

describe('RequestObserver', () => {
  it.each([
    [
      'Cannot write to "bookmarks": others keep changing it',
      'Cannot write to "bookmarks": others keep changing it',
    ],
    ['No response from "a.example": timed out', 'No response from the storage "a.example": timed out'],
  ])('names the server of a failure: %j', (message, told) => {
    const observer = new RequestObserver({
      show: null,
      tell: () => {},
      places: { tokenServer: 'x', authority: '' },
      tokenServerUrl: 'https://token.example',
      now: () => 0,
      send: async () => new Response(),
    })
    observer.upstreamCall({ target: 'storage', method: 'GET', status: null, failure: 'timeout', ms: 1 })

    observer.upstreamFailed(new UpstreamError('timeout', message))

    expect(observer.reason).toStartWith(told)
  })

  it('says once that a request waits, if the storage has failed for five seconds', async () => {
    const told: string[] = []
    let nowMs = 0
    const observer = new RequestObserver({
      show: null,
      tell: (line) => told.push(line),
      places: { tokenServer: '', authority: '' },
      tokenServerUrl: 'https://token.example',
      now: () => nowMs,
      async send() {
        for (const ms of [0, 4999, 5000, 9000]) {
          nowMs = 1000 + ms
          observer.upstreamCall({
            target: 'storage',
            method: 'GET',
            status: null,
            failure: 'unreachable',
            ms: 1,
          })
          if (ms === 4999) expect(told).toEqual([])
        }
        return Response.json({})
      },
    })
    nowMs = 1000

    await observer.fetch('http://127.0.0.1/v1/batch', {})

    expect(told).toEqual([
      'The storage does not respond: still trying. You can stop, and run this again later',
    ])
  })
})

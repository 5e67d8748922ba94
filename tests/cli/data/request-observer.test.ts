import { describe, expect, it } from 'bun:test'
import { RequestObserver } from '../../../src/cli/data/request-observer.ts'

describe('RequestObserver', () => {
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

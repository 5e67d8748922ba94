import { describe, expect, it } from 'bun:test'
import { startShortLinks, type Announcement } from '../../src/sandbox/announce.ts'

const info: Announcement = {
  tokenServerUrl: 'http://127.0.0.1:5000',
  storageUrl: 'http://127.0.0.1:5001',
  bucket: '0123456789abcdef0123456789abcdef',
  assertion: 'a.b.c~d.e.f',
  bearerToken: 'g.h.i',
  keyId: '1500000000000-ASNFZ4mrze8BI0VniavN7w',
  syncKey: Buffer.from([1, 2, 255]),
}

const bridge = {
  url: 'http://127.0.0.1:8888',
  docsUrl: 'http://127.0.0.1:8888/v1/docs',
  explorerUrl: 'http://127.0.0.1:8888/v1/explore',
  recordId: '{a}',
}

describe('startShortLinks', () => {
  it('redirects to the pages with the credentials, and returns 404 without the secret', async () => {
    const started = startShortLinks({ ...info, bridge }, bridge, '0123456789ab')
    const ask = (url: string) => fetch(url, { redirect: 'manual' })

    const answers = await Promise.all([
      ask(started.explorer),
      ask(started.docs),
      ask(new URL('/', started.docs).href),
    ])
    await started.stop()

    const identity = `BUCKET=${info.bucket}&KEY_ID=${info.keyId}&BEARER_TOKEN=g.h.i`
    expect(answers.map(({ status, headers }) => [status, headers.get('Location')])).toEqual([
      [302, `${bridge.explorerUrl}#${identity}&SYNC_KEY=0102ff&KEEP_KEY=yes`],
      [302, `${bridge.docsUrl}#${identity}`],
      [404, null],
    ])
    expect(started.docs.length).toBeLessThanOrEqual(120)
  })
})

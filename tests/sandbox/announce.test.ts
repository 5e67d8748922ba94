import { describe, expect, it } from 'bun:test'
import { announce, type Announcement } from '../../src/sandbox/announce.ts'

const info: Announcement = {
  tokenServerUrl: 'http://127.0.0.1:5000',
  storageUrl: 'http://127.0.0.1:5001',
  bucket: '0123456789abcdef0123456789abcdef',
  assertion: 'a.b.c~d.e.f',
  bearerToken: 'g.h.i',
  keyId: '1500000000000-ASNFZ4mrze8BI0VniavN7w',
  syncKey: Buffer.from([1, 2, 255]),
}

const bridge = { url: 'http://127.0.0.1:8888', docsUrl: 'http://127.0.0.1:8888/docs', recordId: '{a}' }

function readValues(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/^([A-Z0-9_]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
  )
}

describe('announce', () => {
  it('has one NAME=value line for everything a script needs', () => {
    const text = announce(info)

    expect(readValues(text)).toEqual({
      TOKEN_SERVER_URL: info.tokenServerUrl,
      STORAGE_URL: info.storageUrl,
      BUCKET: info.bucket,
      KEY_ID: info.keyId,
      BEARER_TOKEN: info.bearerToken,
      ASSERTION: info.assertion,
      SYNC_KEY: '0102ff',
      SYNC_KEY_BASE64: 'AQL/',
    })
    expect(text).toContain("'http://127.0.0.1:5000/1.0/sync/1.5'")
  })

  it('adds the bridge and requests to paste', () => {
    const text = announce({ ...info, bridge })

    expect(readValues(text)).toMatchObject({ BRIDGE_URL: bridge.url, DOCS_URL: bridge.docsUrl })
    expect(text).toContain(`'http://127.0.0.1:8888/v1/'`)
    expect(text).toContain(
      [
        `  curl \\`,
        `    -H 'Authorization: Bearer g.h.i' \\`,
        `    -H 'X-KeyID: ${info.keyId}' \\`,
        `    'http://127.0.0.1:8888/v1/buckets/${info.bucket}/collections/bookmarks/records/%7Ba%7D'`,
      ].join('\n'),
    )
    expect(text).toContain(`Documentation: ${bridge.docsUrl}`)
    expect(text.endsWith('\n')).toBe(true)
  })
})

import { describe, expect, it } from 'bun:test'
import { announce, environmentLines, type Announcement } from '../../src/sandbox/announce.ts'

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

function readValues(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/^([A-Z0-9_]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
  )
}

describe('announce', () => {
  it('has one NAME=value line for everything a script needs', () => {
    const text = announce(info, null)

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
    expect(text).toContain('"http://127.0.0.1:5000/1.0/sync/1.5"')
  })

  it('begins with the link to the explorer, and names the file that has the rest', () => {
    const text = announce({ ...info, bridge }, '/tmp/private/sandbox.env')

    const links = text.match(/http\S+/g)!
    expect(links).toEqual([
      `${bridge.explorerUrl}#BUCKET=${info.bucket}&KEY_ID=${info.keyId}&BEARER_TOKEN=g.h.i&SYNC_KEY=0102ff`,
      `${bridge.docsUrl}#BUCKET=${info.bucket}&KEY_ID=${info.keyId}&BEARER_TOKEN=g.h.i`,
    ])
    expect(text).toContain('\n  . /tmp/private/sandbox.env\n')
    expect(text).toContain(
      [
        `  curl \\`,
        `    -H "Authorization: Bearer $BEARER_TOKEN" \\`,
        `    -H "X-KeyID: $KEY_ID" \\`,
        `    "$BRIDGE_URL/v1/buckets/$BUCKET/collections/bookmarks/records/%7Ba%7D"`,
      ].join('\n'),
    )
    expect(readValues(text)).toEqual({})
    expect(text.endsWith('\n')).toBe(true)
  })

  it('has the values in the text where no file could be written', () => {
    const text = announce({ ...info, bridge }, null)

    expect(readValues(text)).toMatchObject({ BRIDGE_URL: bridge.url, SYNC_KEY: '0102ff' })
  })
})

describe('environmentLines', () => {
  it('name the bridge too, where there is one', () => {
    const values = readValues(environmentLines({ ...info, bridge }))

    expect(values).toMatchObject({ BRIDGE_URL: bridge.url, DOCS_URL: bridge.docsUrl })
  })
})

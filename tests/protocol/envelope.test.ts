import { describe, expect, it } from 'bun:test'
import { isLarge, toResponse } from '../../src/protocol/envelope.ts'
import type { Reply } from '../../src/protocol/reply.ts'
import type { Settings } from '../../src/settings/settings.ts'

const settings = {
  backoff: null,
  eos: null,
  eosMessage: null,
  eosUrl: null,
  corsOrigins: null,
} as unknown as Settings

const reply = (more: Partial<Reply> = {}): Reply => ({ status: 200, headers: {}, body: null, ...more })
const nobody = { origin: null, requestId: 'r', startedAtMs: 1000, notices: [], isLegacyBucket: false }
const quiet = { backoffSeconds: null, alert: null, quotaRemaining: null }

/** The notices of an answer: Alert, Backoff and Quota-Remaining. */
function noticesOf(status: number, context: object, more: Partial<Settings> = {}) {
  const { headers } = toResponse(reply({ status }), { ...nobody, ...context }, { ...settings, ...more })
  const names = ['Alert', 'Backoff', 'Quota-Remaining'].filter((name) => headers.has(name))
  return Object.fromEntries(names.map((name) => [name, headers.get(name)!]))
}

function alertOf(context: object, more: Partial<Settings> = {}, status = 200): unknown {
  const { Alert } = noticesOf(status, context, more)
  return Alert === undefined ? null : JSON.parse(Alert)
}

describe('the notices of an answer', () => {
  const advised = { isLegacyBucket: true }

  it('are absent when there is nothing to say', () => {
    expect(noticesOf(200, {})).toEqual({})
    expect(noticesOf(200, { notices: [quiet] })).toEqual({})
  })

  it('tell the gravest alert, and else that of this service before that of the storage before advice', () => {
    const eos = { text: '2000', atMs: 2000 }
    const notices = [{ ...quiet, alert: 'words' }]
    const grave = [{ ...quiet, alert: '{"code":"hard-eol"}' }]

    expect(alertOf(advised, { projectDocs: 'https://d.example/' })).toEqual({
      code: 'soft-eol',
      message: 'Use the client state as the bucket id, not X-Client-State',
      url: 'https://d.example/',
    })
    expect(alertOf({ ...advised, notices })).toEqual({ code: 'soft-eol', message: 'words' })
    expect(alertOf({ ...advised, notices }, { eos, eosMessage: 'end' })).toEqual({
      code: 'soft-eol',
      message: 'end',
    })
    expect(alertOf({ ...advised, notices: grave }, { eos })).toEqual({ code: 'hard-eol' })
    expect(alertOf({ notices }, {}, 410)).toEqual({ code: 'hard-eol' })
  })

  it('are not talked into gravity by words', () => {
    const notices = [{ ...quiet, alert: 'no "hard-eol" yet' }]

    expect(alertOf({ ...advised, notices })).toMatchObject({ code: 'soft-eol' })
  })

  it('have alerts of short printable ASCII, whatever they say', () => {
    for (const text of [
      '\u00e9\u{1f600}',
      'a\r\nb',
      '\u0000',
      'x'.repeat(4000),
      '{"code":"soft-eol","message":"\\u2028\\n"}',
    ]) {
      const { Alert } = noticesOf(200, { notices: [{ ...quiet, alert: text }] })

      expect(Alert).toMatch(/^[ -~]{1,3000}$/)
      expect(JSON.parse(Alert!)).toMatchObject({ code: 'soft-eol' })
    }
  })

  it('tell Backoff as a whole number, below 400 only', () => {
    const told = { notices: [{ ...quiet, backoffSeconds: 2.1, quotaRemaining: '9.9' }] }

    expect(noticesOf(200, told)).toEqual({ Backoff: '3', 'Quota-Remaining': '9.9' })
    expect(noticesOf(304, told)).toMatchObject({ Backoff: '3' })
    expect(noticesOf(400, told)).toEqual({})
    expect(noticesOf(200, told, { backoff: 7 })).toMatchObject({ Backoff: '7' })
  })

  it('announce the end of service, softly until the moment itself', () => {
    const ending = { eos: { text: 'x', atMs: 1000 }, eosMessage: 'm', eosUrl: 'https://u.example/' }

    expect(alertOf({ startedAtMs: 999 }, ending)).toEqual({
      code: 'soft-eol',
      message: 'm',
      url: 'https://u.example/',
    })
    expect(alertOf({ startedAtMs: 1000 }, ending)).toMatchObject({ code: 'hard-eol' })
    expect(alertOf({ startedAtMs: 1000 })).toBeNull()
  })
})

describe('isLarge', () => {
  it('is what the buffers of the operating system do not hold', () => {
    const bodies = [
      null,
      '',
      'x'.repeat(65_536),
      'x'.repeat(65_537),
      new Uint8Array(65_537),
      { read: async () => null, cancel() {} },
    ]

    expect(bodies.map(isLarge)).toEqual([false, false, false, true, true, true])
  })
})

describe('toResponse', () => {
  it('lets nobody store what belongs to one of several users of a URL', () => {
    const cacheControl = (isLegacyBucket: boolean) =>
      toResponse(reply(), { ...nobody, isLegacyBucket }, settings).headers.get('cache-control')

    expect([cacheControl(false), cacheControl(true)]).toEqual(['no-cache', 'no-cache, no-store'])
  })

  it('gives a type to bodies only, and lets the reply have its own', () => {
    expect(toResponse(reply(), nobody, settings).headers.has('content-type')).toBe(false)
    expect(toResponse(reply({ body: '{}' }), nobody, settings).headers.get('content-type')).toContain('json')
    const own = toResponse(reply({ body: '', headers: { 'Content-Type': 'text/css' } }), nobody, settings)
    expect(own.headers.get('content-type')).toBe('text/css')
  })

  it('lets an origin read the answer only where it may', () => {
    const strict = { ...settings, corsOrigins: new Set(['https://a.example']) }
    const allowed = (origin: string | null) =>
      toResponse(reply(), { ...nobody, origin }, strict).headers.get('access-control-allow-origin')

    expect([allowed('https://a.example'), allowed('https://b.example'), allowed(null)]).toEqual([
      'https://a.example',
      null,
      null,
    ])
  })
})

import { describe, expect, it } from 'bun:test'
import { checkHost, isLarge, publicOrigin, toResponse } from '../../src/protocol/reply.ts'
import type { ExposedSettings, Reply } from '../../src/protocol/reply.ts'
import { RandomTexts } from './random.ts'

const settings = {
  backoff: null,
  eos: null,
  eosMessage: null,
  eosUrl: null,
  corsOrigins: null,
} as unknown as ExposedSettings

const reply = (more: Partial<Reply> = {}): Reply => ({ status: 200, headers: {}, body: null, ...more })
const nobody = { origin: null, requestId: 'r', startedAtMs: 1000, notices: null, isLegacyBucket: false }
const quiet = { backoffSeconds: null, alert: null, quotaRemaining: null }

/** The notices of an answer: Alert, Backoff and Quota-Remaining. */
function noticesOf(status: number, context: object, more: Partial<ExposedSettings> = {}) {
  const { headers } = toResponse(reply({ status }), { ...nobody, ...context }, { ...settings, ...more })
  const names = ['Alert', 'Backoff', 'Quota-Remaining'].filter((name) => headers.has(name))
  return Object.fromEntries(names.map((name) => [name, headers.get(name)!]))
}

function alertOf(context: object, more: Partial<ExposedSettings> = {}, status = 200): unknown {
  const { Alert } = noticesOf(status, context, more)
  return Alert === undefined ? null : JSON.parse(Alert)
}

describe('the notices of an answer', () => {
  const advised = { isLegacyBucket: true }

  it('are absent when there is nothing to say', () => {
    expect(noticesOf(200, {})).toEqual({})
    expect(noticesOf(200, { notices: quiet })).toEqual({})
  })

  it('tell the gravest alert, and else that of this service before that of the storage before advice', () => {
    const eos = { text: '2000', atMs: 2000 }
    const notices = { ...quiet, alert: 'words' }
    const grave = { ...quiet, alert: '{"code":"hard-eol"}' }

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
    const notices = { ...quiet, alert: 'no "hard-eol" yet' }

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
      const { Alert } = noticesOf(200, { notices: { ...quiet, alert: text } })

      expect(Alert).toMatch(/^[ -~]{1,3000}$/)
      expect(JSON.parse(Alert!)).toMatchObject({ code: 'soft-eol' })
    }
  })

  it('tell Backoff as a whole number, below 400 only', () => {
    const told = { notices: { ...quiet, backoffSeconds: 2.1, quotaRemaining: '9.9' } }

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

const none = { httpHost: null, httpScheme: null }

describe('publicOrigin', () => {
  it('is as configured, or else made of the Host', () => {
    expect(publicOrigin('a.example:81', none)).toBe('http://a.example:81')
    expect(publicOrigin('a.example', { httpHost: null, httpScheme: 'https' })).toBe('https://a.example')
    expect(publicOrigin('a.example', { httpHost: 'b.example', httpScheme: 'https' })).toBe(
      'https://b.example',
    )
    expect(publicOrigin(null, { httpHost: 'b.example', httpScheme: null })).toBe('http://b.example')
  })

  it('is always an origin and nothing else, for every Host that is accepted', () => {
    const pieces = [
      'a',
      '.',
      '-',
      '_',
      ':',
      '80',
      '99999',
      '/',
      '\\',
      '@',
      '?',
      '#',
      ' ',
      ',',
      '[',
      ']',
      '::1',
      '%',
      '\n',
      '\u00e9',
      'evil.example',
    ]
    const texts = new RandomTexts(pieces, 9)
    let accepted = 0
    for (let turn = 0; turn < 20_000; turn++) {
      const host = texts.next(5)
      let origin: string
      try {
        origin = publicOrigin(host, none)
      } catch {
        continue
      }
      accepted++
      expect(origin).toMatch(/^http:\/\/[A-Za-z0-9[\]:._-]+$/)
      expect(URL.parse(`${origin}/v1/x`)?.pathname ?? '/v1/x').toBe('/v1/x')
    }
    expect(accepted).toBeGreaterThan(500)
  })
})

describe('checkHost', () => {
  it.each([
    null,
    '',
    ' ',
    'a b',
    'a,b',
    'a, b',
    '<x>',
    'u@h',
    'h:',
    'h:x',
    'h:65536',
    'h:1:2',
    '[::1',
    '.a',
    '-a',
    'a/b',
    'a?b',
    '\u00e9',
  ])('refuses %p', (host) => {
    expect(() => checkHost(host, none)).toThrow('Host in header')
  })

  it.each([
    'a',
    'a.example',
    'A.example:65535',
    '127.0.0.1:8000',
    '[::1]',
    '[fe80::1]:80',
    'under_score.example',
  ])('accepts %s', (host) => {
    expect(() => checkHost(host, none)).not.toThrow()
  })

  it('lets it be missing where ours is configured, but never be wrong', () => {
    const configured = { httpHost: 'b.example' }

    expect(() => checkHost(null, configured)).not.toThrow()
    expect(() => checkHost('', configured)).not.toThrow()
    expect(() => checkHost('a b', configured)).toThrow('Host in header')
  })
})

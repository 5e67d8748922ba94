import { describe, expect, it } from 'bun:test'
import {
  checkHost,
  eosAlert,
  noticeHeaders,
  publicOrigin,
  softAlert,
  toResponse,
} from '../../src/protocol/reply.ts'
import type { ExposedSettings, Reply } from '../../src/protocol/reply.ts'
import type { Notices } from '../../src/domain/record-storage.ts'
import { RandomTexts } from './random.ts'

const settings = {
  backoff: null,
  eos: null,
  eosMessage: null,
  eosUrl: null,
  corsOrigins: null,
} as unknown as ExposedSettings

const reply = (more: Partial<Reply> = {}): Reply => ({ status: 200, headers: {}, body: null, ...more })
const nobody = { origin: null, requestId: 'r', notices: null, alert: null, isLegacyBucket: false }
const quiet = { backoffSeconds: null, alert: null, quotaRemaining: null }
const silent = { notices: null, alert: null }
const alertOf = (
  { status = 200, ...told }: { status?: number; alert?: string; notices?: Notices },
  more: Partial<ExposedSettings> = {},
) => {
  const { Alert } = noticeHeaders(status, { ...silent, ...told }, { ...settings, ...more }, 1000)
  return Alert === undefined ? null : (JSON.parse(Alert) as unknown)
}

describe('noticeHeaders', () => {
  it('says nothing when there is nothing to say', () => {
    expect(noticeHeaders(200, silent, settings, 0)).toEqual({})
    expect(noticeHeaders(200, { ...silent, notices: quiet }, settings, 0)).toEqual({})
  })

  it('chooses the gravest alert, and else that of this service before that of the storage before advice', () => {
    const eos = { text: '2000', atMs: 2000 }
    const notices = { ...quiet, alert: 'words' }
    const own = softAlert('advice', null)

    expect(alertOf({ alert: own })).toEqual({ code: 'soft-eol', message: 'advice' })
    expect(alertOf({ alert: own, notices })).toEqual({ code: 'soft-eol', message: 'words' })
    expect(alertOf({ alert: own, notices }, { eos, eosMessage: 'end' })).toEqual({
      code: 'soft-eol',
      message: 'end',
    })
    expect(alertOf({ alert: own, notices: { ...quiet, alert: '{"code":"hard-eol"}' } }, { eos })).toEqual({
      code: 'hard-eol',
    })
    expect(alertOf({ status: 410, notices })).toEqual({ code: 'hard-eol' })
  })

  it('is not talked into gravity by words', () => {
    expect(
      alertOf({ notices: { ...quiet, alert: 'no "hard-eol" yet' }, alert: softAlert('advice', null) }),
    ).toMatchObject({
      code: 'soft-eol',
    })
  })

  it('writes alerts as short printable ASCII, whatever they say', () => {
    for (const text of [
      '\u00e9\u{1f600}',
      'a\r\nb',
      '\u0000',
      'x'.repeat(4000),
      '{"code":"soft-eol","message":"\\u2028\\n"}',
    ]) {
      const { Alert } = noticeHeaders(200, { ...silent, notices: { ...quiet, alert: text } }, settings, 0)

      expect(Alert).toMatch(/^[ -~]{1,3000}$/)
      expect(JSON.parse(Alert!)).toMatchObject({ code: 'soft-eol' })
    }
  })

  it('tells Backoff as a whole number, below 400 only', () => {
    const told = { ...silent, notices: { ...quiet, backoffSeconds: 2.1, quotaRemaining: '9.9' } }

    expect(noticeHeaders(200, told, settings, 0)).toEqual({ Backoff: '3', 'Quota-Remaining': '9.9' })
    expect(noticeHeaders(304, told, settings, 0)).toMatchObject({ Backoff: '3' })
    expect(noticeHeaders(400, told, settings, 0)).toEqual({})
    expect(noticeHeaders(200, told, { ...settings, backoff: 7 }, 0)).toMatchObject({
      Backoff: '7',
    })
  })
})

describe('eosAlert', () => {
  it('turns from soft to hard at the moment itself', () => {
    const ending = {
      ...settings,
      eos: { text: 'x', atMs: 1000 },
      eosMessage: 'm',
      eosUrl: 'https://u.example/',
    }

    expect(JSON.parse(eosAlert(ending, 999)!)).toEqual({
      code: 'soft-eol',
      message: 'm',
      url: 'https://u.example/',
    })
    expect(JSON.parse(eosAlert(ending, 1000)!)).toMatchObject({ code: 'hard-eol' })
    expect(eosAlert(settings, 1000)).toBeNull()
  })
})

describe('toResponse', () => {
  it('lets nobody store what belongs to one of several users of a URL', () => {
    const cacheControl = (isLegacyBucket: boolean) =>
      toResponse(reply(), { ...nobody, isLegacyBucket }, settings, 0).headers.get('cache-control')

    expect([cacheControl(false), cacheControl(true)]).toEqual(['no-cache', 'no-cache, no-store'])
  })

  it('gives a type to bodies only, and lets the reply have its own', () => {
    expect(toResponse(reply(), nobody, settings, 0).headers.has('content-type')).toBe(false)
    expect(toResponse(reply({ body: '{}' }), nobody, settings, 0).headers.get('content-type')).toContain(
      'json',
    )
    const own = toResponse(reply({ body: '', headers: { 'Content-Type': 'text/css' } }), nobody, settings, 0)
    expect(own.headers.get('content-type')).toBe('text/css')
  })

  it('lets an origin read the answer only where it may', () => {
    const strict = { ...settings, corsOrigins: new Set(['https://a.example']) }
    const allowed = (origin: string | null) =>
      toResponse(reply(), { ...nobody, origin }, strict, 0).headers.get('access-control-allow-origin')

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

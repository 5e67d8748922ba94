import { describe, expect, it } from 'bun:test'
import { toResponse } from '../../src/protocol/envelope.ts'
import type { Reply } from '../../src/protocol/reply.ts'
import type { Settings } from '../../src/settings/settings.ts'

const none = { backoff: null, eos: null, eosMessage: null, eosUrl: null, corsOrigins: null }
const settings = none as unknown as Settings

const reply = (more: Partial<Reply> = {}): Reply => ({ status: 200, headers: {}, body: null, ...more })
const quiet = { backoffSeconds: 0, alert: null, isShutDown: false, quotaRemaining: null }
const nobody = { origin: null, requestId: 'r', startedAtMs: 1000, notices: quiet, isLegacyBucket: false }

/** The Alert of a response; null if there is none. */
function alertTextOf(context: object, more: Partial<Settings> = {}): string | null {
  return toResponse(reply(), { ...nobody, ...context }, { ...settings, ...more }).headers.get('alert')
}

function alertOf(context: object, more: Partial<Settings> = {}): unknown {
  return JSON.parse(alertTextOf(context, more) ?? 'null')
}

describe('the notices of a response', () => {
  const advised = { isLegacyBucket: true }

  it('send the most serious alert; among equals, that of this service before that of the storage before advice', () => {
    const eos = { text: '2000', atMs: 2000 }
    const notices = { ...quiet, alert: 'words' }
    const grave = { ...quiet, alert: '{"code":"hard-eol"}' }

    expect(alertOf(advised, { projectDocs: 'https://d.example/' })).toEqual({
      code: 'soft-eol',
      message: 'Use the client state as the bucket id',
      url: 'https://d.example/',
    })
    expect(alertOf({ ...advised, notices })).toEqual({ code: 'soft-eol', message: 'words' })
    expect(alertOf({ ...advised, notices }, { eos, eosMessage: 'end' })).toEqual({
      code: 'soft-eol',
      message: 'end',
    })
    expect(alertOf({ ...advised, notices: grave }, { eos })).toEqual({ code: 'hard-eol' })
    expect(alertOf({ notices: { ...notices, isShutDown: true } })).toEqual({ code: 'hard-eol' })
  })

  it('have alerts of short printable ASCII, whatever their text', () => {
    const json = '{"code":"soft-eol","message":"\\u2028\\n"}'
    for (const text of ['\u00e9\u{1f600}', 'a\r\nb', '\u0000', 'x'.repeat(4000), json]) {
      const alert = alertTextOf({ notices: { ...quiet, alert: text } })

      expect(alert).toMatch(/^[ -~]{1,3000}$/)
      expect(JSON.parse(alert!)).toMatchObject({ code: 'soft-eol' })
    }
  })
})

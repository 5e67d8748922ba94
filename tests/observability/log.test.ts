import { describe, expect, it } from 'bun:test'
import { assert, constantFrom, property, string } from 'fast-check'

import { createLog, isLogged, type Log, type LogOptions } from '../../src/observability/log.ts'
import type { LogEvent, LogValue } from '../../src/observability/log-events.ts'

/** A log that accepts any fields. */
type LooseLog = Pick<Log, 'level'> &
  Record<(typeof levels)[number], (event: LogEvent, fields?: Record<string, LogValue>) => void>

function logTo(lines: string[], options: Partial<LogOptions> = {}): LooseLog {
  const write = (line: string) => void lines.push(line)
  const now = () => Date.UTC(2026, 0, 2, 3, 4, 5, 678)
  return createLog({
    renderer: 'json',
    level: 'debug',
    write,
    now,
    colour: false,
    priorities: false,
    ...options,
  }) as unknown as LooseLog
}

const levels = ['debug', 'info', 'warning', 'error'] as const

describe('createLog', () => {
  it('omits events below its level, also after a change of the level', () => {
    const lines: string[] = []
    const log = logTo(lines, { level: 'warning' })

    for (const level of levels) log[level]('request')
    log.level = 'info'
    for (const level of levels) log[level]('request')

    const heard = lines.map((line) => JSON.parse(line).level)
    expect(heard).toEqual(['warning', 'error', 'info', 'warning', 'error'])
    expect([isLogged(log, 'info'), isLogged(log, 'debug')]).toEqual([true, false])
  })

  it('writes an event as one line of JSON', () => {
    const lines: string[] = []

    logTo(lines).info('request', {
      status: 200,
      path: '/v1/',
      cached: false,
      collection: null,
      errno: undefined,
    })

    expect(lines).toEqual([
      '{"time":"2026-01-02T03:04:05.678Z","level":"info","event":"request","status":200,"path":"/v1/","cached":false,"collection":null}',
    ])
  })

  it.each([
    ['debug', 7],
    ['info', 6],
    ['warning', 4],
    ['error', 3],
  ] as const)('adds the journal priority to a line of level %s', (level, priority) => {
    const lines: string[] = []

    logTo(lines, { priorities: true })[level]('request')

    expect(lines.map((line) => line.slice(0, 9))).toEqual([`<${priority}>{"time`])
  })

  it('cuts long values to 256 characters', () => {
    const lines: string[] = []

    logTo(lines).info('request', { kept: 'a'.repeat(256), cut: 'b'.repeat(257) })

    expect(JSON.parse(lines[0]!)).toMatchObject({ kept: 'a'.repeat(256), cut: `${'b'.repeat(256)}…` })
  })

  it.each(['json', 'text'] as const)(
    'keeps any value in %s on one line of visible characters',
    (renderer) => {
      const nasty = string({
        unit: constantFrom('a', '\n', '\r', '\x1b[2J', '\x7f', '\x9b', '\u2028', '\u202e', '\ud800', '😀'),
      })
      assert(
        property(nasty, (value) => {
          const lines: string[] = []
          logTo(lines, { renderer }).info('request', { reason: value })

          expect(lines).toHaveLength(1)
          expect(lines[0]).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u)
          if (renderer === 'json' && value.length <= 256) expect(JSON.parse(lines[0]!).reason).toBe(value)
        }),
        { numRuns: 300 },
      )
    },
  )

  it('writes text for people, quoted where it could be misread', () => {
    const lines: string[] = []

    logTo(lines, { renderer: 'text' }).warning('upstream failed', {
      path: '/v1/',
      agent: 'a b=c',
      empty: '',
      ms: 12.5,
      errno: undefined,
    })

    expect(lines).toEqual([
      '2026-01-02T03:04:05.678Z warning upstream failed path=/v1/ agent="a b=c" empty="" ms=12.5',
    ])
  })

  it('colours text only if requested, and JSON never', () => {
    const text: string[] = []
    const json: string[] = []

    logTo(text, { renderer: 'text', colour: true }).error('defect', { reason: 'x' })
    logTo(json, { colour: true }).error('defect')

    expect(text).toEqual([
      '\x1b[90m2026-01-02T03:04:05.678Z\x1b[0m \x1b[31merror  \x1b[0m defect \x1b[36mreason\x1b[0m=x',
    ])
    expect(json[0]).not.toContain('\x1b')
  })
})

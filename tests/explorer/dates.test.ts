import { describe, expect, it } from 'bun:test'
import { ago } from '../../src/explorer/dates.ts'

describe('ago', () => {
  it('counts minutes, hours, days, months and years, and shows nothing as in the future', () => {
    const minute = 60_000
    const day = 1440 * minute
    const told = [-minute, minute, 90 * minute, 3 * day, 59 * day, 90 * day, 800 * day].map((ms) =>
      ago(Date.now() - ms),
    )

    expect(told).toEqual([
      'this minute',
      '1 minute ago',
      '1 hour ago',
      '3 days ago',
      '59 days ago',
      '3 months ago',
      '2 years ago',
    ])
  })
})

import { STATUS_CODES } from 'node:http'
import { expect } from 'bun:test'

interface AnswerLike {
  status: number
  headers: Headers
  body: unknown
}

/** A detail as `<name> in <location>`. */
export type Place = `${string} in ${'body' | 'querystring' | 'path' | 'header'}`

/**
 * Expects an error response in the form of section 6. `places`: where the problems are, in the order of `details`; without it, no list of
 * problems is expected.
 */
export function expectError(answer: AnswerLike, status: number, errno: number, ...places: Place[]): void {
  const body = answer.body as Record<string, unknown>
  expect(answer.status).toBe(status)
  expect([body.code, body.errno, body.error]).toEqual([status, errno, STATUS_CODES[status]])
  expect(String(body.message)).not.toBe('')
  const details = body.details as { location: string; name: string; description: string }[] | undefined
  if (places.length === 0) return expect(Array.isArray(details)).toBe(false)
  expect(details!.map(({ name, location }) => `${name} in ${location}`)).toEqual(places)
  for (const { description } of details!) expect(description).not.toBe('')
  expect(body.message).toContain(details![0]!.description)
}

/** A PUT of these data. */
export const putOf = (data: object, headers: Record<string, string> = {}) => ({
  method: 'PUT',
  headers,
  body: { data },
})

/** Expects the headers that section 7 requires for every response. */
export function expectCommonHeaders(headers: Headers, { isDocs = false, isLegacy = false } = {}): void {
  expect(headers.get('cache-control')).toBe(isLegacy ? 'no-cache, no-store' : 'no-cache')
  expect(headers.get('vary')).toBe('Authorization, X-Client-State, X-KeyID, Origin')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  if (!isDocs) {
    expect(headers.get('content-security-policy')).toBe("default-src 'none'; frame-ancestors 'none'")
  }
}

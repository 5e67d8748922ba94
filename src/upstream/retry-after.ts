const maxSeconds = 86_400

/**
 * The seconds that an answer asks to wait, rounded up and at most a day; null when it asks nothing or nothing
 * that makes sense. Numbers, also with a fraction, and HTTP dates; see RFC 9110, 10.2.3.
 */
export function readRetryAfter(headers: Headers, nowMs: number): number | null {
  const text = headers.get('retry-after')
  if (text === null) return null
  const seconds = readSeconds(text)
  if (seconds !== null) return seconds
  const atMs = httpDateForm.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.min(maxSeconds, Math.max(0, Math.ceil((atMs - nowMs) / 1000)))
}

const httpDateForm = /^[A-Z][a-z]{2,8},? .{8,40}$/

/** Reads a number of seconds that upstream asks for, rounded up and at most a day; null for anything else. */
export function readSeconds(text: string | null): number | null {
  if (text === null || !numberForm.test(text)) return null
  return Math.min(maxSeconds, Math.ceil(Number(text)))
}

const numberForm = /^\d{1,15}(?:\.\d{1,15})?$/

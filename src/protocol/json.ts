import { invalidRequest } from '../domain/errors.ts'
import type { ServiceError } from '../domain/errors.ts'

/** How deep and how wide a body may be. Ours are 5 levels deep; a batch of 1 000 requests has about 10 000 members. */
const limits = { depth: 32, members: 50_000 }

const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/**
 * Reads a request body as JSON: strict UTF-8, bounded depth and width, no key twice in an object, and none that would reach an
 * object's prototype. Throws `ServiceError` 400 naming `body` or the key.
 */
export function readJson(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalidBody('is not valid UTF-8')
  }
  const keys = checkShape(text)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalidBody('is not valid JSON')
  }
  // Of a key that comes twice only the last value is left.
  if (countKeys(value) !== keys) throw invalidBody('names a key twice in one object')
  return value
}

/**
 * Bounds the shape before anything is parsed, and counts the keys: 8 MB of opening brackets, parsed, take 640 MB of memory and
 * block for a second.
 */
function checkShape(text: string): number {
  let keys = 0
  let depth = 0
  let members = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (inString) {
      if (char === backslash) at++
      else if (char === quote) inString = false
    } else if (char === quote) inString = true
    else if (char === openBrace || char === openBracket) depth++
    else if (char === closeBrace || char === closeBracket) depth--
    else if (char === comma) members++
    else if (char === colon) keys++
    if (depth > limits.depth) throw invalidBody(`is nested deeper than ${limits.depth} levels`)
    if (members > limits.members) throw invalidBody(`has more than ${limits.members} members`)
  }
  return keys
}

const [quote, comma, colon, backslash, openBracket, closeBracket, openBrace, closeBrace] =
  Buffer.from('",:\\[]{}')

/** Counts the keys of all objects in a value; throws when one of them would reach a prototype. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const names = Object.keys(value)
  let count = Array.isArray(value) ? 0 : names.length
  for (const key of names) {
    if (forbiddenKeys.has(key)) {
      throw invalidRequest([{ location: 'body', name: key, description: 'is not allowed as a key' }])
    }
    count += countKeys((value as Record<string, unknown>)[key])
  }
  return count
}

function invalidBody(description: string): ServiceError {
  return invalidRequest([{ location: 'body', name: 'body', description }])
}

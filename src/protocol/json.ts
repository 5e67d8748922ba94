import { invalidRequest } from '../domain/errors.ts'
import type { ServiceError } from '../domain/errors.ts'

/** How deep and how wide a body may be. Ours are 5 levels deep; a batch of 1 000 requests has about 10 000 members. */
const limits = { depth: 32, members: 50_000 }

const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/**
 * Reads a request body as JSON: strict UTF-8, bounded depth and width, no key twice in an object and none that
 * would reach an object's prototype. The bounds are checked before anything is parsed, in one pass that skips over
 * strings, so that a hostile body costs no more than a large honest one.
 *
 * Throws `ServiceError` 400 naming `body`.
 */
export function readJson(bytes: Uint8Array): unknown {
  const text = decode(bytes)
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

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalidBody('is not valid UTF-8')
  }
}

/** Checks the structure of a JSON text, and counts its keys. */
function checkShape(text: string): number {
  let depth = 0
  let members = 0
  let keys = 0
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = endOfString(text, at)
        if (isKey(text, at)) keys++
        break
      case openBrace:
      case openBracket:
        if (++depth > limits.depth) throw invalidBody(`is nested deeper than ${limits.depth} levels`)
        break
      case closeBrace:
      case closeBracket:
        depth--
        break
      case comma:
        if (++members > limits.members) throw invalidBody(`has more than ${limits.members} members`)
        break
    }
  }
  return keys
}

/** Counts the keys of all objects in a value; throws when one of them would reach a prototype. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += countKeys(item)
    return count
  }
  for (const key in value) {
    if (forbiddenKeys.has(key)) {
      throw invalidRequest([{ location: 'body', name: key, description: 'is not allowed as a key' }])
    }
    count += 1 + countKeys((value as Record<string, unknown>)[key])
  }
  return count
}

const quote = 34
const comma = 44
const openBracket = 91
const backslash = 92
const closeBracket = 93
const openBrace = 123
const closeBrace = 125

function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end === -1 ? text.length : end
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(at - 1 - backslashes) === backslash) backslashes++
  return backslashes % 2 === 1
}

function isKey(text: string, endOfName: number): boolean {
  let at = endOfName + 1
  while (text.charCodeAt(at) <= 32) at++
  return text[at] === ':'
}

function invalidBody(description: string): ServiceError {
  return invalidRequest([{ location: 'body', name: 'body', description }])
}

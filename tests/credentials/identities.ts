import * as fc from 'fast-check'

import {
  createIdentity,
  toEndpoint,
  type Identity,
  type SyncCredentials,
} from '../../src/domain/credentials.ts'

export const nowMs = Date.parse('2024-05-01T12:00:00Z')
export const tokenServerUrl = 'https://token.example'
export const secret = new Uint8Array(32).fill(7)
export const otherSecret = new Uint8Array(32).fill(8)

export function someIdentity(changes: Partial<Omit<Identity, 'key'>> = {}): Identity {
  return createIdentity({
    scheme: 'BrowserID',
    assertion: 'certificate~assertion',
    clientState: '0123456789abcdef0123456789abcdef',
    ...changes,
  })
}

export function someCredentials(changes: Partial<SyncCredentials> = {}): SyncCredentials {
  return {
    hawkId: 'hawk-id',
    hawkKey: 'hawk-key',
    endpoint: toEndpoint(new URL('https://node.example/1.5/42')),
    uid: 42,
    expiresAtMs: nowMs + 3_600_000,
    ...changes,
  }
}

/** A signed part in the format of assertions and access tokens; its signature is never verified. */
export function signedPart(claims: unknown): string {
  return ['{"alg":"RS256"}', JSON.stringify(claims), 'signature'].map((text) => toBase64Url(text)).join('.')
}

export function toBase64Url(text: string): string {
  return Buffer.from(text).toString('base64url')
}

/** Short texts of few characters, so that shifted boundaries and equal fields are frequent. */
const tightText = fc.string({ unit: fc.constantFrom('a', 'b', '1', '3', ':', '-', '~'), maxLength: 5 })

export const identities: fc.Arbitrary<Identity> = fc
  .record(
    {
      scheme: fc.constantFrom('BrowserID' as const, 'Bearer' as const),
      assertion: tightText,
      clientState: tightText,
      keyId: tightText,
    },
    { requiredKeys: ['scheme', 'assertion', 'clientState'] },
  )
  .map(createIdentity)

export function isSameIdentity(a: Identity, b: Identity): boolean {
  return (
    a.scheme === b.scheme &&
    a.assertion === b.assertion &&
    a.clientState === b.clientState &&
    a.keyId === b.keyId
  )
}

import { ClientError } from '../../client/errors.ts'
import { firefoxCollections } from '../../settings/schema.ts'
import { nearest } from '../../settings/nearest.ts'
import type { SyncClient } from '../../client/sync-client.ts'

/** Reports a collection that neither the account nor Firefox has, which is probably misspelt; null if one of them has it. */
export async function describeAbsent(client: SyncClient, name: string): Promise<string | null> {
  if (firefoxCollections.includes(name)) return null
  const names = (await client.collections()).map((collection) => collection.name)
  if (names.includes(name)) return null
  const meant = nearest(name, [...names, ...firefoxCollections])
  return `The account has no collection ${JSON.stringify(name)}${meant ? `: did you mean ${meant}?` : ''}`
}

/** The content of these collections is the keys themselves. */
export const neverShown: ReadonlySet<string> = new Set(['crypto'])

/** Throws `ClientError` for a collection that is never shown. */
export function refuseKeys(name: string): void {
  if (neverShown.has(name))
    throw new ClientError(`"${name}" contains the keys of the account, which are not shown`)
}

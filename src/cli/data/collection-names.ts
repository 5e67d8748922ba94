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

/** Throws `ClientError` for the collection whose content is the keys themselves. */
export function refuseKeys(name: string): void {
  if (name === 'crypto')
    throw new ClientError('"crypto" contains the keys of the account, which are not shown')
}

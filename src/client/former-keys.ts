import { readKey, type Account } from './account.ts'

/**
 * The sync key that belongs to a key id, as 128 hexadecimal digits: the account's own, or one from before a password reset. Null if the
 * account has neither.
 */
export function keyFor(account: Partial<Account>, keyId: string): string | null {
  const id = withoutPadding(keyId)
  if (account.syncKey && account.keyId && withoutPadding(account.keyId) === id)
    return readKey(account.syncKey)
  return formerKeysOf(account).get(id) ?? null
}

/** The keys from before password resets, by key id. */
export function formerKeysOf({ formerKeys = '' }: Partial<Account>): Map<string, string> {
  return new Map(
    Array.from(formerKeys.matchAll(/(?:^|,)(\d+-[\w-]{22}):([\da-f]{128})(?=,|$)/gi), ([, keyId, key]) => [
      keyId!,
      key!,
    ]),
  )
}

/** The `formerKeys` of an account that follows another one of the same person, whose keys older backups need. */
export function formerKeysAfter(former: Partial<Account>, keyId: string): string {
  const keys = formerKeysOf(former)
  if (former.keyId && former.syncKey) keys.set(withoutPadding(former.keyId), readKey(former.syncKey))
  keys.delete(withoutPadding(keyId))
  return Array.from(keys, ([id, key]) => `${id}:${key}`).join(',')
}

/** Whether two key ids name the same key. */
export function isSameKeyId(one: string, other: string): boolean {
  return withoutPadding(one) === withoutPadding(other)
}

function withoutPadding(keyId: string): string {
  return keyId.replaceAll('=', '')
}

import type { Account } from '../../src/client/account.ts'
import { keysRecord } from '../../src/sandbox/crypto.ts'
import { encryptRecord, keyPairFromHex, type ClearRecord } from '../../src/client/crypto.ts'
import { startAccounts, type Accounts } from '../firefox/accounts.ts'
import { encrypted } from '../support/records.ts'
import { authentication, encryption } from './damaged.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { TestBridge } from '../support/bridge.ts'

/** The account values for a client of this bridge, a real one, so that the package reads what a bridge sends. */
export function accountAt({ url, user: first }: TestBridge, user: SandboxUser = first): Partial<Account> {
  const { keyId, syncKey } = user
  return { bridgeUrl: url, token: user.bearerToken(), keyId, syncKey: syncKey.toString('hex') }
}

/** An account server for this user. */
export function accountsOf(user: SandboxUser): Accounts {
  const mintAccessToken = (expiresInSeconds: number) => user.bearerToken({ expiresInSeconds })
  return startAccounts({ email: user.email, devices: [], mintAccessToken })
}

/** An account with an expired token and a refresh token. */
export function expiredAccount(bridge: TestBridge, accounts: Accounts): Partial<Account> {
  return {
    ...accountAt(bridge),
    token: bridge.user.bearerToken({ expiresInSeconds: -3600 }),
    refreshToken: accounts.grantRefreshToken(),
    tokenEndpoint: `${accounts.url}/v1/oauth/token`,
    clientId: '5882386c6d801776',
  }
}

/** A sandbox store and its owner. */
type Owned = Pick<TestBridge, 'sandbox' | 'user'>

/** Writes records like this user's Firefox. */
export async function upload({ sandbox, user }: Owned, collection: string, ...clear: ClearRecord[]) {
  const records = await Promise.all(clear.map((each) => encrypted(sandbox, user, collection, each)))
  return sandbox.write(user, collection, records)
}

/** Creates new keys, like a client that was reset: those of `damaged.ts`, unless given. They can't decrypt earlier records. */
export async function replaceKeys(
  { sandbox, user }: Owned,
  [encryptionKey, hmacKey] = [encryption!, authentication!],
): Promise<void> {
  const keys = { ...keysRecord({ encryptionKey, hmacKey }), id: 'keys' }
  const payload = await encryptRecord(keyPairFromHex(user.syncKey.toString('hex')), keys)
  sandbox.write(user, 'crypto', [{ id: 'keys', payload }])
}

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

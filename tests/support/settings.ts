import { randomBytes } from 'node:crypto'

/** The settings of a bridge under test, in this process or in its own. */
export interface GivenSettings {
  /** Settings by name without `service.`, as text: `{ readonly: 'true' }`. */
  settings?: Record<string, string>
  /** Collections with puts and deletions enabled. */
  writable?: readonly string[]
  /** The token server's address for the bridge; default: the sandbox's. */
  tokenServerUrl?: string
}

/** All settings of a bridge over a sandbox; with the memory cache by default. */
export function settingsOf(
  given: GivenSettings,
  upstream: { tokenServerUrl: string },
): Record<string, string> {
  return {
    port: '0',
    token_server_url: given.tokenServerUrl ?? upstream.tokenServerUrl,
    cache_backend: 'memory',
    cache_hmac_secret: randomBytes(32).toString('hex'),
    ...given.settings,
    ...writableSettings(given.writable ?? []),
  }
}

/** The settings that enable puts and deletions in these collections. */
export function writableSettings(collections: readonly string[]): Record<string, string> {
  const names = collections.flatMap((name) => [`record_${name}_put_enabled`, `record_${name}_delete_enabled`])
  return Object.fromEntries(names.map((name) => [name, 'true']))
}

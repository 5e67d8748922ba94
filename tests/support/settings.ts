import { randomBytes } from 'node:crypto'

/** What a bridge under test is told, be it in this process or in one of its own. */
export interface GivenSettings {
  /** Settings by name without `service.`, as text: `{ readonly: 'true' }`. */
  settings?: Record<string, string>
  /** Collections that may be put into and deleted from. */
  writable?: readonly string[]
  /** Where the bridge thinks the token server is; the sandbox's when left out. */
  tokenServerUrl?: string
}

/** All settings of a bridge over a sandbox; with the memory cache, unless told otherwise. */
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

/** The settings that let these collections be put into and deleted from. */
export function writableSettings(collections: readonly string[]): Record<string, string> {
  const names = collections.flatMap((name) => [`record_${name}_put_enabled`, `record_${name}_delete_enabled`])
  return Object.fromEntries(names.map((name) => [name, 'true']))
}

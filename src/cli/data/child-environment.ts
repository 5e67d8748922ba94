/** What an account file, a sandbox or a recipe may have left in the environment. */
const secrets = new Set([
  'BEARER_TOKEN',
  'REFRESH_TOKEN',
  'ASSERTION',
  'SYNC_KEY',
  'SYNC_KEY_BASE64',
  'FORMER_KEYS',
])

/** The environment for the programs of a user, such as an editor: without keys and tokens. */
export function childEnvironment(
  environment: Record<string, string | undefined>,
): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !secrets.has(name)))
}

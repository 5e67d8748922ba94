import { maskedSettings } from '../settings/settings-text.ts'
import { loadSettings } from './load-settings.ts'

import type { Host } from './host.ts'
import type { Programs } from './programs.ts'

/**
 * Shows the settings as they count, and tries whether token server and cache answer. 0 if all is well, otherwise 2.
 */
export async function check(
  path: string | null,
  host: Host,
  trusting: string[],
  createProbes: Programs['createProbes'],
): Promise<number> {
  const loaded = loadSettings(path, host, trusting)
  if (!loaded) return 2
  host.stdout.write(`${maskedSettings(loaded.effective).join('\n')}\n\n`)

  const probes = await createProbes(loaded.settings)
  const [tokenServer, cache] = await Promise.all([probes.tokenServer(), probes.cache()])
  await probes.close()
  host.stdout.write(`token server: ${tokenServer === true ? 'answers' : tokenServer}\n`)
  host.stdout.write(`cache: ${cache === true ? 'answers' : cache}\n`)
  return tokenServer === true && cache === true ? 0 : 2
}

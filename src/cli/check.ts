import { maskedSettings } from '../settings/settings-text.ts'
import { loadSettings } from './load-settings.ts'

import type { Host } from './host.ts'
import type { Settings } from '../settings/settings.ts'
import type { Probes, Programs } from './programs.ts'

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

/** What `check` asks the service's surroundings. */
export async function createProbes(settings: Settings): Promise<Probes> {
  const { createParts } = await import('../service/parts.ts')
  const { tokenServer, store } = createParts(
    settings,
    { now: Date.now },
    { upstreamCall() {}, breaker() {}, redisTrouble() {} },
  )
  const timeoutMs = settings.tokenServerHeartbeatTimeoutSeconds * 1000
  return {
    tokenServer: async () =>
      (await tokenServer.heartbeat(timeoutMs)) || `no answer from ${settings.tokenServerUrl}`,
    cache: async () =>
      store === null || (await answersSoon(() => store.ping())) || 'no answer: see service.cache_url',
    close: () => store?.close(),
  }
}

// A store connects in the background, so the first question may come too early.
async function answersSoon(ping: () => Promise<boolean>): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt++) {
    if (await ping()) return true
    await Bun.sleep(50)
  }
  return false
}

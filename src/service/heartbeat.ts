import type { Heartbeat } from '../routes/services.ts'

const freshMs = 5000

interface HeartbeatOptions {
  tokenServer(timeoutMs: number): Promise<boolean>
  cache(): Promise<boolean>
  /** How long a probe may take. */
  timeoutMs: number
  /** A clock in ms. */
  now(): number
}

/**
 * Probes what the service depends on, at most once in 5 s however often it is asked, so that a health check can't be
 * used to hammer others. Never rejects; a probe without an answer in time counts as failed.
 */
export function createHeartbeat({
  tokenServer,
  cache,
  timeoutMs,
  now,
}: HeartbeatOptions): () => Promise<Heartbeat> {
  let last: { probe: Promise<Heartbeat>; untilMs: number } | null = null

  async function probe(): Promise<Heartbeat> {
    const [storage, cacheAnswers] = await Promise.all([
      withDeadline(tokenServer(timeoutMs), timeoutMs),
      withDeadline(cache(), timeoutMs),
    ])
    return { storage, cache: cacheAnswers, permission: true }
  }

  return () => {
    if (last && now() < last.untilMs) return last.probe
    const current = { probe: probe(), untilMs: Infinity }
    void current.probe.then(() => (current.untilMs = now() + freshMs))
    last = current
    return current.probe
  }
}

async function withDeadline(probe: Promise<boolean>, timeoutMs: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), timeoutMs)
  try {
    return await Promise.race([probe.catch(() => false), late])
  } finally {
    clearTimeout(timer)
  }
}

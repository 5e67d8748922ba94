import type { Switches } from './switches.ts'

/** Health and version pages, the same on both servers. */
export function dockerflow(
  { healthy, quotaKilobytes }: Pick<Switches, 'healthy' | 'quotaKilobytes'>,
  path: string,
): Response {
  const state = healthy ? 'Ok' : 'Err'
  const enabled = quotaKilobytes !== null
  const quota = { size: (quotaKilobytes ?? 0) * 1024, enabled, enforced: enabled }
  switch (path) {
    case '/__heartbeat__':
      return Response.json(
        { version: 'sandbox', database: state, status: state, quota },
        { status: healthy ? 200 : 503 },
      )
    case '/__lbheartbeat__':
      return Response.json({ active_connections: 0, idle_connections: 10, duration_ms: 0 })
    case '/__version__':
      return Response.json({ source: 'sandbox', version: 'sandbox', commit: '', build: '' })
    default:
      return Response.json(0, { status: 404 })
  }
}

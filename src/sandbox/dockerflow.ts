import type { Switches } from './switches.ts'

/** Health and version pages, the same on both servers. */
export function dockerflow({ healthy }: Pick<Switches, 'healthy'>, path: string): Response {
  const state = healthy ? 'Ok' : 'Err'
  switch (path) {
    case '/__heartbeat__':
      return Response.json(
        { version: 'sandbox', database: state, status: state, quota: { enabled: false } },
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

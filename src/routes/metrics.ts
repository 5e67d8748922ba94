import { Elysia } from 'elysia'
import type * as Descriptions from './service-descriptions.ts'
import type { Services } from './services.ts'

/** GET /__metrics__: what this service has counted, in all of its processes; there only when it is switched on. */
export function metricsRoutes({ metrics }: Services, descriptions?: typeof Descriptions) {
  if (!metrics) return new Elysia()
  return new Elysia().get(
    '/__metrics__',
    async () => {
      const { text, type } = await metrics()
      return { status: 200, headers: { 'Content-Type': type }, body: text }
    },
    { detail: descriptions?.metricsDescription },
  )
}

import { Elysia } from 'elysia'
import type { DocumentDecoration } from 'elysia'
import { answers, plainHeaders } from './api-answers.ts'
import type { Services } from './services.ts'

/** GET /__metrics__: what this service has counted, in all of its processes; there only when it is switched on. */
export function metricsRoutes({ metrics }: Services) {
  if (!metrics) return new Elysia()
  return new Elysia().get(
    '/__metrics__',
    async () => {
      const { text, type } = await metrics()
      return { status: 200, headers: { 'Content-Type': type }, body: text }
    },
    { detail: metricsDescription },
  )
}

const metricsDescription: DocumentDecoration = {
  operationId: 'getMetrics',
  tags: ['Service'],
  summary: 'Read the metrics',
  description: 'In the text format of Prometheus. No name, label or figure tells of users or their records.',
  responses: answers(
    [{ status: 200, description: 'The metrics', headers: plainHeaders, type: 'text/plain' }],
    [400, 410],
  ),
}

import type { MetricFamily } from '../observability/metric-families.ts'
import type { Supervisor } from './host.ts'

/** What a worker asks its supervisor for. */
export interface WorkerLink {
  /** The metrics of all workers; the worker's own when the supervisor does not answer within a second. */
  allFamilies(): Promise<MetricFamily[]>
}

const answerTimeoutMs = 1000

/** Answers what the supervisor asks of this worker, and asks it in turn. */
export function createWorkerLink(
  supervisor: Supervisor,
  ownFamilies: () => MetricFamily[],
  delay: (ms: number) => Promise<void>,
): WorkerLink {
  const waiting = new Map<number, (families: MetricFamily[]) => void>()
  let lastQuestion = 0
  supervisor.onMessage((message) => {
    if (message.kind === 'tell-metrics') {
      supervisor.send({ kind: 'metrics', question: message.question, families: ownFamilies() })
    }
    if (message.kind === 'all-metrics') waiting.get(message.question)?.(message.families)
  })
  return {
    async allFamilies() {
      const question = ++lastQuestion
      const { promise, resolve } = Promise.withResolvers<MetricFamily[]>()
      waiting.set(question, resolve)
      supervisor.send({ kind: 'ask-metrics', question })
      const families = await Promise.race([promise, delay(answerTimeoutMs).then(ownFamilies)])
      waiting.delete(question)
      return families
    },
  }
}

import { load } from '../load.ts'
import { residentMegabytes } from '../processes.ts'
import { median } from '../statistics.ts'
import type { Subject } from '../subjects.ts'

export interface Endurance {
  requests: number
  /** After the first ten thousand requests, and at the end. */
  megabytes: { early: number; late: number }
  course: [requests: number, megabytes: number][]
}

/** Memory over many requests: until the count is reached or the time is up. */
export async function measureEndurance(
  subject: Subject,
  { requests: wanted, seconds, script }: { requests: number; seconds: number; script: string },
): Promise<Endurance> {
  const course: Endurance['course'] = []
  const endsAtMs = performance.now() + seconds * 1000
  let requests = 0
  let early = 0
  while (requests < wanted && performance.now() < endsAtMs) {
    const run = await load(subject, { connections: 32, seconds: 1, script })
    requests += run.requests
    const megabytes = residentMegabytes(subject.pids)
    course.push([requests, megabytes])
    if (requests >= 10_000) early ||= megabytes
  }
  // Memory rises and falls between two collections, so the last runs are combined.
  const late = median(course.slice(-9).map(([, megabytes]) => megabytes))
  return { requests, megabytes: { early, late }, course }
}

/**
 * Runs the tasks, at most `limit` at a time. After the first failure no further task is started; the failure is thrown
 * once the tasks in flight have ended, so that nothing runs on unobserved.
 */
export async function runBounded(tasks: (() => Promise<void>)[], limit = 8): Promise<void> {
  const waiting = [...tasks]
  const failures: unknown[] = []
  const lanes = Array.from({ length: Math.min(limit, tasks.length) }, async () => {
    for (let task = waiting.shift(); task && failures.length === 0; task = waiting.shift()) {
      try {
        await task()
      } catch (error) {
        failures.push(error)
      }
    }
  })
  await Promise.all(lanes)
  if (failures.length > 0) throw failures[0]
}

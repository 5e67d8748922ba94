/**
 * Polls until the condition holds, and fails with its name when that never happens. How soon it holds is never the
 * point: a deadline that passes on an idle machine alone proves nothing.
 */
export async function eventually(
  name: string,
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 60_000,
): Promise<void> {
  const startedAtMs = performance.now()
  for (;;) {
    const holds = await Promise.try(condition).catch(() => false)
    if (holds) return
    if (performance.now() - startedAtMs > deadlineMs)
      throw new Error(`Waited ${deadlineMs} ms in vain: ${name}`)
    await Bun.sleep(5)
  }
}

/**
 * Polls until the condition holds; fails with its name if it never does. The deadline is generous, because one that only holds on an idle
 * machine would prove nothing; a test has more time, or its own timeout would hide the name.
 */
export async function eventually(
  name: string,
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 45_000,
): Promise<void> {
  const startedAtMs = performance.now()
  for (;;) {
    const holds = await Promise.try(condition).catch(() => false)
    if (holds) return
    if (performance.now() - startedAtMs > deadlineMs)
      throw new Error(`Timed out after ${deadlineMs} ms: ${name}`)
    await Bun.sleep(5)
  }
}

import type { TransactionContext } from './transaction-context.ts'
import type { WrittenCollection } from './written-collection.ts'

/** Pauses before what is missing is tried again, 0.1, 0.3 and 0.9 s after it failed, while something may be visible. */
const forwardPausesMs = [100, 200, 600]
/** A restart of the storage takes seconds. */
const firstPauseMs = 250
const maxPauseMs = 2000

/**
 * Makes the changes of all collections visible, or none of them: whichever works first. When one part is visible and another fails, the
 * rest is tried again a few times. Then the undo of what is visible and the rest of the commit are tried in turn, until one of them is
 * complete or time is up. The first undo that is carried out decides that the transaction is undone.
 *
 * Throws what the first attempt failed with when the changes are not visible. What is visible nevertheless, or may be, is observed.
 */
export async function commitOrUndo(parts: WrittenCollection[], context: TransactionContext): Promise<void> {
  const { budget } = context
  const error = await attempt(parts)
  let lastError = error
  for (const pauseMs of forwardPausesMs) {
    if (lastError === null) return
    // The undo needs time, too.
    if (!context.mayBeVisible || budget.leftMs < pauseMs) break
    await budget.wait(pauseMs)
    lastError = await attempt(parts)
  }
  if (lastError === null) return
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    // Concurrently, because the client waits, and a storage that hangs takes its time for each.
    const endings = await Promise.all(
      parts.toReversed().map(async (part) => ({ part, ...(await part.undo()) })),
    )
    if (endings.every(({ isFinal }) => isFinal) || !budget.hasTime) {
      for (const kind of ['undone', 'partial', 'unknown'] as const) {
        const collections = endings.flatMap(({ part, left }) => (left === kind ? [part.collection] : []))
        if (collections.length > 0) context.observe({ kind, collections })
      }
      throw error
    }
    if (!parts.some(({ isUndoing }) => isUndoing) && (await attempt(parts)) === null) return
    await budget.wait(Math.max(0, Math.min(pauseMs, budget.leftMs)))
  }
}

/** Commits what is not visible yet, all at the same moment, so that hardly anything can come between. Resolves to the first failure. */
async function attempt(parts: WrittenCollection[]): Promise<unknown> {
  const open = parts.filter(({ state }) => state.hasChanges)
  try {
    // Where a storage can't stage, one after the other: if the first fails, nothing is visible.
    for (const part of open) if (!part.canStage) await part.commit()
    const ends = await Promise.allSettled(open.map((part) => part.commit()))
    const failure = ends.find((end) => end.status === 'rejected')
    return failure ? failure.reason : null
  } catch (error) {
    return error
  }
}

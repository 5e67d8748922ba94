import type { TransactionContext } from './context.ts'
import type { Phase, WrittenCollection } from './written-collection.ts'

/** Pauses between attempts to complete a partly visible commit: 0.1, 0.3 and 0.9 s after it failed. */
const forwardPausesMs = [100, 200, 600]
/** Long enough for a restart of the storage. */
const firstPauseMs = 250
const maxPauseMs = 2000

/**
 * Makes the changes of all collections visible, or none: first the uploads, then the deletions. If one part is visible and another fails,
 * it first retries the rest. Then it tries undo and commit in turn, until one is complete or time is up; after the first undo that is
 * applied, only undo.
 *
 * Throws the error of the first attempt if the changes are not visible. Reports parts that stay visible, or may be.
 */
export async function commitOrUndo(parts: WrittenCollection[], context: TransactionContext): Promise<void> {
  const { budget } = context
  const mayBeVisible = () => context.mayBeVisible && parts.some((part) => part.mayBeVisible)
  const error = await attempt(parts)
  let lastError = error
  for (const pauseMs of forwardPausesMs) {
    if (lastError === null) return
    // Leaves time for the undo.
    if (!mayBeVisible() || budget.leftMs < pauseMs) break
    await budget.wait(pauseMs)
    lastError = await attempt(parts)
  }
  if (lastError === null) return
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    // Concurrently, because a storage that hangs costs its timeout for each.
    const endings = await Promise.all(
      parts.toReversed().map(async (part) => ({ part, ...(await part.undo()) })),
    )
    if (endings.every(({ isFinal }) => isFinal) || !budget.hasTime) {
      for (const kind of ['undone', 'partial', 'unknown'] as const) {
        const collections = endings.flatMap(({ part, left }) => (left === kind ? [part.collection] : []))
        if (collections.length > 0) context.options.observe({ kind, collections })
      }
      throw error
    }
    const mayComplete = mayBeVisible() && !parts.some(({ isUndoing }) => isUndoing)
    if (mayComplete && (await attempt(parts)) === null) return
    await budget.wait(Math.max(0, Math.min(pauseMs, budget.leftMs)))
  }
}

/** Makes one attempt at what remains, phase by phase. Resolves to the first failure, or null. */
async function attempt(parts: WrittenCollection[]): Promise<unknown> {
  return (await attemptPhase(parts, 'upload')) ?? (await attemptPhase(parts, 'deletion'))
}

/** Commits all collections at once, to narrow the window for other writers. */
async function attemptPhase(parts: WrittenCollection[], phase: Phase): Promise<unknown> {
  const open = parts.filter((part) => part.isOpen(phase))
  try {
    // Storages that can't stage go one by one: if the first fails, nothing is visible.
    for (const part of open) if (phase === 'upload' && !part.canStage) await part.commit(phase)
    const ends = await Promise.allSettled(open.map((part) => part.commit(phase)))
    const failure = ends.find((end) => end.status === 'rejected')
    return failure ? failure.reason : null
  } catch (error) {
    return error
  }
}

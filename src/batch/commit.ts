import { UpstreamError } from '../domain/errors.ts'
import { retries } from '../domain/retries.ts'
import type { TransactionContext } from './context.ts'
import type { Phase, WrittenCollection } from './written-collection.ts'

/** The end of an attempt after which `context.accepts` no longer holds, so that nothing may stay. */
const refused = new UpstreamError('refused', 'A strict batch was rejected in part, and could not be undone')

/**
 * Makes the changes of all collections visible, or none: first the uploads, then the deletions. If one part is visible and another fails,
 * it first retries the rest. Then it tries undo and commit in turn, until one is complete or time is up; after the first undo that is
 * applied, only undo.
 *
 * Resolves to false if everything was undone because the outcomes are not accepted. Throws the error of the first attempt if the changes
 * are not visible for another reason. Reports parts that stay visible, or may be.
 */
export async function commitOrUndo(
  parts: WrittenCollection[],
  context: TransactionContext,
): Promise<boolean> {
  const { budget } = context
  const mayBeVisible = () => context.mayBeVisible && parts.some((part) => part.mayBeVisible)
  const error = await attempt(parts, context)
  let lastError = error
  for (const pauseMs of retries.forward.pausesMs) {
    if (lastError === null) return true
    // Leaves time for the undo.
    if (lastError === refused || !mayBeVisible() || budget.leftMs < pauseMs) break
    await budget.wait(pauseMs)
    lastError = await attempt(parts, context)
  }
  const { firstPauseMs, maxPauseMs } = retries.inTurn
  let pauseMs: number = firstPauseMs
  for (; lastError !== null; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    // Concurrently, because a storage that hangs costs its timeout for each.
    const isTorn = parts.some(({ isVisible }) => isVisible)
    await Promise.all(parts.map((part) => part.resolveDoubt(isTorn)))
    const mayComplete = () => lastError !== refused && !parts.some(({ isUndoing }) => isUndoing)
    // The last step may have been applied after all, and then needs no undo.
    if (mayComplete() && parts.every(({ isComplete }) => isComplete)) return true
    const mayUndo = !parts.some(({ isDeletionInDoubt }) => isDeletionInDoubt)
    const endings = await Promise.all(
      parts.toReversed().map(async (part) => ({ part, ...(await part.undo(mayUndo)) })),
    )
    if (endings.every(({ isFinal }) => isFinal) || !budget.hasTime) {
      for (const kind of ['undone', 'partial', 'unknown'] as const) {
        const collections = endings.flatMap(({ part, left }) => (left === kind ? [part.collection] : []))
        if (collections.length > 0) context.options.observe({ kind, collections })
      }
      const isUndone = endings.every(({ left }) => left === 'nothing' || left === 'undone')
      if (lastError === refused && isUndone) return false
      throw error
    }
    if (mayComplete() && mayBeVisible()) lastError = await attempt(parts, context)
    if (lastError !== null) await budget.wait(Math.max(0, Math.min(pauseMs, budget.leftMs)))
  }
  return true
}

/** Makes one attempt at what remains, phase by phase. Resolves to the first failure, or null. */
async function attempt(parts: WrittenCollection[], context: TransactionContext): Promise<unknown> {
  // A collection that is decided again before its deletion may need an upload as well; it bounds its rounds.
  do {
    for (const phase of ['upload', 'deletion'] as const) {
      const failure = await attemptPhase(parts, phase)
      if (failure !== null) return failure
      if (!context.accepts()) return refused
    }
  } while (parts.some((part) => part.isOpen('upload') || part.isOpen('deletion')))
  return null
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

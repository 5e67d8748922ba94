import { readListDocument } from '../domain/list.ts'
import { isRefusal } from './refusal.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { ListOptions, ListOutcome, RecordStorage } from '../domain/record-storage.ts'
import type { BaseList } from './list-page.ts'

/** How many bytes the lists of one transaction may hold together. */
export class AnswerBudget {
  #leftBytes: number

  constructor(bytes: number) {
    this.#leftBytes = bytes
  }

  /** Whether there is room for so many more, which are then taken. */
  take(bytes: number): boolean {
    if (bytes > this.#leftBytes) return false
    this.#leftBytes -= bytes
    return true
  }

  giveBack(bytes: number): void {
    this.#leftBytes += bytes
  }
}

/** A list read into memory, and the bytes of the budget that it holds. */
export interface ReadList {
  list: BaseList
  heldBytes: number
}

/**
 * Reads a list into memory, as a page or, on demand, parsed. What comes back is the storage's verdict when the
 * precondition left nothing to read. A definite refusal (below 500, not 401) belongs to the list alone.
 */
export async function readList(
  storage: RecordStorage,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
  budget: AnswerBudget,
  form: 'page' | 'records',
): Promise<ReadList | Exclude<ListOutcome, { outcome: 'page' }>> {
  try {
    const outcome = await storage.list(collection, options, precondition)
    if (outcome.outcome !== 'page') return outcome
    const { page } = outcome
    const bytes = await readBytes(page.document, budget)
    if (bytes === null) return { list: { kind: 'too-large' }, heldBytes: 0 }
    const heldBytes = bytes.byteLength
    if (form === 'page') return { list: { kind: 'page', page: { ...page, document: bytes } }, heldBytes }
    return { list: { kind: 'records', records: readListDocument(bytes), next: page.next }, heldBytes }
  } catch (error) {
    if (isRefusal(error) && error.status !== 401) {
      return { list: { kind: 'failed', error }, heldBytes: 0 }
    }
    throw error
  }
}

async function readBytes(
  document: Uint8Array | ReadableStream<Uint8Array>,
  budget: AnswerBudget,
): Promise<Uint8Array | null> {
  if (document instanceof Uint8Array) return budget.take(document.byteLength) ? document : null
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = document.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return joined(chunks, length)
      if (!budget.take(value.byteLength)) {
        budget.giveBack(length)
        // A storage that fails while it is told to stop has nothing to say that matters any more.
        await reader.cancel().catch(() => {})
        return null
      }
      chunks.push(value)
      length += value.byteLength
    }
  } finally {
    reader.releaseLock()
  }
}

function joined(chunks: Uint8Array[], length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  let position = 0
  for (const chunk of chunks) {
    bytes.set(chunk, position)
    position += chunk.byteLength
  }
  return bytes
}

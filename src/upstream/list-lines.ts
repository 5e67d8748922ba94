import { UpstreamError } from '../domain/errors.ts'
import { readJson } from './answer.ts'
import type { ByteSource, UpstreamAnswer } from './answer.ts'

const maxArrayBytes = 64 * 1024 * 1024
const bracketOpen = 91

/**
 * The body of a list as lines, which is how it is asked for. A storage that knows JSON arrays only is understood as
 * well, but its list has to fit into memory.
 */
export async function openLines(answer: UpstreamAnswer): Promise<ByteSource> {
  const { body } = answer
  const first = await body.read()
  if (first?.[0] !== bracketOpen) return resume(first, body)
  const values = await readJson({ ...answer, body: resume(first, body) }, maxArrayBytes)
  if (!Array.isArray(values))
    throw new UpstreamError('bad-response', 'Cannot use a list of the storage: no list')
  const lines = values.map((value) => `${JSON.stringify(value)}\n`).join('')
  return resume(lines === '' ? null : Buffer.from(lines), ended)
}

/** The rest of a body with the piece that was read from it already. */
function resume(first: Uint8Array | null, rest: ByteSource): ByteSource {
  let isFirst = true
  return {
    async read() {
      if (!isFirst) return first === null ? null : await rest.read()
      isFirst = false
      return first
    },
    cancel: () => rest.cancel(),
  }
}

const ended: ByteSource = { read: async () => null, cancel: () => {} }

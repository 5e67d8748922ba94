import type { ByteSource } from '../../src/domain/record-storage.ts'

/** The chunks of a stream, in the form that a storage passes on. */
export function sourceOf(stream: ReadableStream<Uint8Array>): ByteSource {
  const reader = stream.getReader()
  return {
    read: async () => (await reader.read()).value ?? null,
    cancel: () => void reader.cancel().catch(() => {}),
  }
}

/** The text of a body, whole or in chunks. */
export async function readText(body: Uint8Array | ByteSource): Promise<string> {
  if (body instanceof Uint8Array) return Buffer.from(body).toString()
  const pieces: Uint8Array[] = []
  for (let piece = await body.read(); piece; piece = await body.read()) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

const minFreedBytes = 4096

/** Frees the memory of unused bytes at once, by transferring their buffer to length 0. Garbage collection would free it much later. */
export function freeMemory({ buffer, byteLength }: Uint8Array): void {
  const isAll = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
  if (isAll && byteLength >= minFreedBytes) buffer.transfer(0)
}

/** Joins bytes, and texts as UTF-8, into one array. Frees the pieces, so they can't be used any more. */
export function joinBytes(pieces: readonly (string | Uint8Array)[]): Uint8Array {
  const whole = Buffer.allocUnsafe(pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0))
  let end = 0
  for (const piece of pieces) {
    if (typeof piece === 'string') end += whole.write(piece, end)
    else {
      whole.set(piece, end)
      end += piece.length
    }
  }
  for (const piece of pieces) if (typeof piece !== 'string') freeMemory(piece)
  return whole
}

const manyBytes = 4096

/**
 * Gives the memory of bytes that nobody needs any more back at once, by moving their buffer into one of no length. The collector comes
 * much later: 100 000 records took 46 MB of memory that way, 24 MB without it.
 */
export function freeMemory({ buffer, byteLength }: Uint8Array): void {
  const isAll = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
  if (isAll && byteLength >= manyBytes) buffer.transfer(0)
}

/** All pieces in one: bytes, and texts as UTF-8. The memory of the bytes is given back, so they can't be used any more. */
export function joinBytes(pieces: readonly (string | Uint8Array)[]): Uint8Array {
  const whole = Buffer.allocUnsafe(pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0))
  let end = 0
  for (const piece of pieces) {
    if (typeof piece === 'string') end += whole.write(piece, end)
    else whole.set(piece, (end += piece.length) - piece.length)
  }
  for (const piece of pieces) if (typeof piece !== 'string') freeMemory(piece)
  return whole
}

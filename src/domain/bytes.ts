const minFreedBytes = 4096

/** Frees the memory of unused bytes at once, by transferring their buffer to length 0. Garbage collection would free it much later. */
export function freeMemory({ buffer, byteLength }: Uint8Array): void {
  const isAll = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
  if (isAll && byteLength >= minFreedBytes) buffer.transfer(0)
}

const minReusedBytes = 16 * 1024
const maxReusedBytes = 320 * 1024
let unusedBuffer = Buffer.alloc(0)
const lentBuffers = new WeakSet<ArrayBufferLike>()

/**
 * A buffer for a list that is sent at once; its content is undefined. Reuses the one of an earlier list if it is long enough: new buffers
 * cause so many garbage collections that 100 records take half as much processor time again.
 */
export function takeListBuffer(minBytes: number): Buffer<ArrayBuffer> {
  if (minBytes < minReusedBytes) return Buffer.allocUnsafeSlow(minBytes)
  const isEnough = unusedBuffer.length >= minBytes
  const taken = isEnough ? unusedBuffer : Buffer.allocUnsafeSlow(minBytes)
  if (isEnough) unusedBuffer = Buffer.alloc(0)
  lentBuffers.add(taken.buffer)
  return taken
}

/** Returns the buffer of a list whose bytes have been copied to the connection. Ignores bytes from elsewhere. */
export function returnListBuffer({ buffer }: Uint8Array): void {
  if (!lentBuffers.delete(buffer)) return
  if (buffer.byteLength > unusedBuffer.length && buffer.byteLength <= maxReusedBytes)
    unusedBuffer = Buffer.from(buffer as ArrayBuffer)
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

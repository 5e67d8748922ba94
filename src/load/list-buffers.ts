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

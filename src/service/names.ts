/** Names that nothing else of any process has: eight random digits of this process, and eight that count. */
export function names(random: Uint8Array): () => string {
  const digits = Buffer.from(random).toString('hex')
  const start = digits.slice(0, 8)
  // From the upper half alone, so that all have eight digits.
  let next = (Number.parseInt(digits.slice(8), 16) | 0x80000000) >>> 0
  return () => {
    next = next === 0xffffffff ? 0x80000000 : next + 1
    return start + next.toString(16)
  }
}

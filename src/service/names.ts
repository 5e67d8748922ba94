/** Names that nothing else of any process has: eight random digits of this process, and eight that count. */
export function names(random: Uint8Array): () => string {
  const digits = Buffer.from(random).toString('hex')
  const start = digits.slice(0, 8)
  let next = Number.parseInt(digits.slice(8), 16)
  return () => {
    next = (next + 1) >>> 0
    return start + next.toString(16).padStart(8, '0')
  }
}

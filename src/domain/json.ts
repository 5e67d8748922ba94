/**
 * Looks how a JSON text is built before it is parsed: 8 MB of opening brackets, parsed, take 640 MB of memory and block for a
 * second. Returns the number of its keys, or of what it has more than that.
 */
export function countJsonKeys(
  text: string,
  most: { depth: number; members: number },
): number | 'depth' | 'members' {
  let keys = 0
  let depth = 0
  let members = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (inString) {
      if (char === backslash) at++
      else if (char === quote) inString = false
    } else if (char === quote) inString = true
    else if (char === openBrace || char === openBracket) depth++
    else if (char === closeBrace || char === closeBracket) depth--
    else if (char === comma) members++
    else if (char === colon) keys++
    if (depth > most.depth) return 'depth'
    if (members > most.members) return 'members'
  }
  return keys
}

const [quote, comma, colon, backslash, openBracket, closeBracket, openBrace, closeBrace] =
  Buffer.from('",:\\[]{}')

/**
 * Checks the depth and size of a JSON text before it is parsed: parsing 8 MB of opening brackets takes 640 MB and blocks for a second.
 * Returns the number of keys, or the limit that is exceeded.
 */
export function countJsonKeys(
  text: string,
  max: { depth: number; members: number },
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
    if (depth > max.depth) return 'depth'
    if (members > max.members) return 'members'
  }
  return keys
}

const [quote, comma, colon, backslash, openBracket, closeBracket, openBrace, closeBrace] =
  Buffer.from('",:\\[]{}')

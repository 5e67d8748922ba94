/** Reads what a user pastes. */

/**
 * Reads lines from stdin up to its end. On a terminal `ask` prints the prompt, the lines are not echoed because they are secrets, and an
 * empty line or `isEnough` also ends them. Null after Ctrl+C.
 */
export async function readPastedLines(
  ask: () => void,
  isEnough: (text: string) => boolean,
): Promise<string | null> {
  const { stdin } = process
  if (!stdin.isTTY) return Bun.stdin.text()
  stdin.setRawMode(true)
  stdin.resume()
  stdin.setEncoding('utf8')
  try {
    // After echo is off.
    ask()
    return await readTerminal(isEnough)
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
  }
}

const [interrupt, endOfFile] = ['\u0003', '\u0004']

async function readTerminal(isEnough: (text: string) => boolean): Promise<string | null> {
  let text = ''
  for await (const piece of process.stdin as AsyncIterable<string>) {
    if (piece.includes(interrupt)) return null
    text += piece.replaceAll('\r\n', '\n').replaceAll('\r', '\n')
    const isEnded = text.endsWith('\n\n') || text === '\n' || piece.includes(endOfFile)
    if (isEnded || (text.endsWith('\n') && isEnough(text))) break
  }
  return text.replace(endOfFile, '')
}

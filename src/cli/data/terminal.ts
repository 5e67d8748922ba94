/** What a person pastes. */

/**
 * The lines that come on the standard input, up to its end. `ask` says on a terminal what is wanted. A terminal does not show them, because they are secrets; there an empty line
 * ends them, too, and so does `isEnough`. Null when the person gives up (Ctrl+C).
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
    // From here on, what is typed is not shown.
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

/** Reads what a user pastes, and asks. */
import { createReadStream, openSync, writeSync } from 'node:fs'
import { ClientError } from '../../client/errors.ts'
import { readInput } from './ask.ts'
import type { Host } from '../host.ts'

const endingSignals = ['SIGHUP', 'SIGTERM'] as const

/**
 * Reads lines from stdin up to its end. On a terminal `ask` prints the prompt, the lines are not echoed because they are secrets, and an
 * empty line or `isEnough` also ends them. Null after Ctrl+C.
 */
export async function readPastedLines(
  host: Host,
  ask: () => void,
  isEnough: (text: string) => boolean,
): Promise<string | null> {
  if (!host.stdin.isTty) return readInput(host)
  const { stdin } = process
  // Otherwise the terminal would not echo after the process has ended.
  const stop = () => {
    stdin.setRawMode(false)
    process.exit(1)
  }
  for (const name of endingSignals) process.on(name, stop)
  stdin.setRawMode(true)
  stdin.resume()
  stdin.setEncoding('utf8')
  try {
    // After echo is off.
    ask()
    return await readTerminal(isEnough)
  } finally {
    for (const name of endingSignals) process.off(name, stop)
    stdin.setRawMode(false)
    stdin.pause()
  }
}

/**
 * Asks a question on the terminal of this process, also if stdin is a pipe. Resolves to the line of the answer. Rejects with `ClientError`
 * without a terminal.
 */
export async function askOnTerminal(question: string): Promise<string> {
  let terminal: number
  try {
    terminal = openSync('/dev/tty', 'r+')
  } catch {
    throw new ClientError(`${question.trim()} Run this in a terminal, which can ask`)
  }
  writeSync(terminal, question)
  let text = ''
  for await (const piece of createReadStream('', { fd: terminal, encoding: 'utf8' })) {
    text += piece
    if (text.includes('\n')) break
  }
  return text.trim()
}

const [interrupt, endOfFile] = ['\u0003', '\u0004']

async function readTerminal(isEnough: (text: string) => boolean): Promise<string | null> {
  let text = ''
  for await (const piece of process.stdin as AsyncIterable<string>) {
    if (piece.includes(interrupt)) return null
    text = erased(text + piece.replaceAll('\r\n', '\n').replaceAll('\r', '\n'))
    const isEnded = text.endsWith('\n\n') || text === '\n' || piece.includes(endOfFile)
    if (isEnded || (text.endsWith('\n') && isEnough(text))) break
  }
  return text.replace(endOfFile, '')
}

/** Applies Backspace and Ctrl+U, which a terminal that does not echo leaves to the program. */
function erased(text: string): string {
  const kept: string[] = []
  const eraseOne = () => kept.at(-1) !== '\n' && kept.pop() !== undefined
  for (const char of text) {
    if (char === '\u007f' || char === '\b') eraseOne()
    else if (char === '\u0015') while (eraseOne());
    else kept.push(char)
  }
  return kept.join('')
}

import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { printable } from '../../client/safe-text.ts'
import { ClientError } from '../../client/errors.ts'
import type { Host } from '../host.ts'

/** Asks on the terminal; false for everything but "y" and "yes". Throws `ClientError` without a terminal; `remedy` says what to do then. */
export function isConfirmed(question: string, remedy: string, effect?: string): boolean {
  return /^y(es)?$/i.test(askLine(`${question} [y/N] `, remedy, effect))
}

/** Asks on the terminal for one line. Throws `ClientError` without a terminal; `effect` says what was done until then. */
export function askLine(question: string, remedy: string, effect = 'Nothing was written'): string {
  const terminal = openTerminal()
  if (terminal === null) throw new ClientError(`${effect}: there is no terminal to ask. ${remedy}`)
  try {
    writeSync(terminal, printable(question))
    const bytes = Buffer.alloc(1024)
    const length = readSync(terminal, bytes, 0, bytes.length, null)
    return bytes.toString('utf8', 0, length).trim()
  } finally {
    closeSync(terminal)
  }
}

function openTerminal(): number | null {
  try {
    return openSync('/dev/tty', 'r+')
  } catch {
    return null
  }
}

const maxInputBytes = 64 * 1024 * 1024

/** Reads standard input to its end. Rejects with `ClientError` if it is too large, or not UTF-8. */
export async function readInput({ stdin }: Host): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of stdin.chunks()) {
    bytes += chunk.byteLength
    if (bytes > maxInputBytes) throw new ClientError('Standard input is too large')
    chunks.push(chunk)
  }
  return readText(Buffer.concat(chunks), 'Standard input')
}

/** Decodes a text of the user. Throws `ClientError` if it is not UTF-8: a replacement character would be written in place of each other one. */
export function readText(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new ClientError(`${what} is not in UTF-8`)
  }
}

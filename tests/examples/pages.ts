import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { clientNeeds, findPython } from '../clients/python.ts'
import { runToEnd } from '../support/processes.ts'
import { executablePath, makeFolder } from '../support/executable.ts'

export const root = join(import.meta.dir, '../..')

/** A Python with the package that the README's examples need, or why there is none. */
export const python = await findPython(...clientNeeds)

/** Types lines as the owner of an account into a terminal, which shows both streams as one. */
export async function typeInto(home: string, lines: string, folder = home) {
  const { output, code } = await paste(`exec 2>&1\n${lines}`, { HOME: home }, folder)
  return { output, code }
}

const known = new Map<string, string[]>()

/** The code blocks of a document that no test has used yet, in order. */
export function piecesLeft(name: string): string[] {
  const text = readFileSync(join(root, name), 'utf8')
  const found = text.matchAll(/^```(?:sh|js|ts|python|crontab)\n([^]*?)^```$/gm)
  const pieces = known.get(name) ?? Array.from(found, ([, code]) => code!)
  known.set(name, pieces)
  return pieces
}

/** Returns the code block of a document that contains this text. */
export function take(name: string, text: string): string {
  const pieces = piecesLeft(name)
  const [code] = pieces.splice(
    pieces.findIndex((piece) => piece.includes(text)),
    1,
  )
  if (!code?.includes(text)) throw new Error(`No code block in ${name} contains "${text}"`)
  return code
}

/** A folder with the examples and the executable, laid out as in the repository. */
export function withExamples(): string {
  const folder = makeFolder()
  symlinkSync(join(root, 'docs'), join(folder, 'docs'))
  mkdirSync(join(folder, 'dist'))
  symlinkSync(executablePath, join(folder, 'dist/sync-bridge'))
  symlinkSync(executablePath, join(folder, 'sync-bridge'))
  symlinkSync(process.execPath, join(folder, 'bun'))
  return folder
}

/** Types lines into a shell, as readers of a page do, by default in a folder from `withExamples`. */
export function paste(lines: string, environment: Record<string, string> = {}, cwd = withExamples()) {
  const pythonFolder = 'path' in python ? [dirname(python.path)] : []
  const PATH = [cwd, ...pythonFolder, '/usr/local/bin', '/usr/bin', '/bin'].join(':')
  return runToEnd(['sh'], { cwd, environment: { ...environment, PATH }, input: `${lines}\n` })
}

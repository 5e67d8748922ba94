import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { dieWithParent } from './die-with-parent.ts'
import { eventually } from './eventually.ts'

/** A program under test, or one that it needs; it ends with the tests. */
export interface Program extends AsyncDisposable {
  readonly pid: number
  /** Its output so far, on both streams. */
  output(): string
  /** Asks it to exit, and kills it after 2 s. Then its output is complete. */
  stop(): Promise<void>
}

/** Starts an installed program, and waits until it is ready. */
export async function startProgram(
  command: [string, ...string[]],
  isReady: () => boolean | Promise<boolean>,
  environment: Record<string, string> = {},
): Promise<Program> {
  const child = Bun.spawn([...dieWithParent('TERM'), findProgram(command[0]), ...command.slice(1)], {
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ...environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  let output = ''
  const printed = [child.stdout, child.stderr].map((stream) =>
    stream
      .pipeThrough(new TextDecoderStream())
      .pipeTo(new WritableStream({ write: (text) => void (output += text) })),
  )
  const stop = async () => {
    child.kill('SIGTERM')
    const insist = setTimeout(() => child.kill('SIGKILL'), 2000)
    await Promise.all([child.exited, ...printed])
    clearTimeout(insist)
  }
  await eventually(`${command[0]} is ready`, () => child.exitCode !== null || isReady())
  if (child.exitCode !== null) {
    throw new Error(`Cannot start "${command.join(' ')}": exit code ${child.exitCode}\n${output}`)
  }
  return { pid: child.pid, output: () => output, stop, [Symbol.asyncDispose]: stop }
}

/** Runs a bash script with these arguments until it exits; synchronous. */
export const runBash = (script: string, ...args: string[]) =>
  Bun.spawnSync(['bash', '-c', script, 'bash', ...args])

interface RunOptions {
  cwd?: string
  /** In addition to PATH, which may also be replaced. */
  environment?: Record<string, string>
  /** Its input; none by default. */
  input?: string | Uint8Array
}

/** Runs a program until it exits; throws with its output if it fails. */
export async function runProgram(command: [string, ...string[]], options: RunOptions = {}): Promise<string> {
  const { output, errors, code } = await runToEnd([findProgram(command[0]), ...command.slice(1)], options)
  if (code !== 0) throw new Error(`"${command.join(' ')}" ended with ${code}:\n${output}${errors}`)
  return output + errors
}

/** A command written as in a shell: each inserted value stays within its word. */
export function words(texts: TemplateStringsArray, ...values: string[]): [string, ...string[]] {
  const marked = String.raw({ raw: texts }, ...values.map((_, index) => `\0${index}\0`)).trim()
  const fillIn = (word: string) => word.replaceAll(/\0(\d+)\0/g, (_, index) => values[Number(index)]!)
  return marked.split(/\s+/).map(fillIn) as [string, ...string[]]
}

/** Runs a program until it exits, with any exit code. */
export async function runToEnd(command: string[], { cwd, environment, input }: RunOptions = {}) {
  const child = Bun.spawn(command, {
    ...(cwd !== undefined && { cwd }),
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ...environment },
    stdin: typeof input === 'string' ? Buffer.from(input) : (input ?? 'ignore'),
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 600_000,
  })
  const [output, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { output, errors, code }
}

/** The lines of a stream, as they arrive. */
export async function* linesIn(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop()!
    yield* lines
  }
  if (rest !== '') yield rest
}

/** The running child processes of a process. */
export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return children.trim().split(' ').filter(Boolean).map(Number)
}

/** The peak memory of a process. */
export function peakBytes(pid: number): number {
  const match = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(match![1]) * 1024
}

/** Whether something listens on a loopback port; rejects if not. */
export async function listens(port: number): Promise<boolean> {
  const socket = await Bun.connect({ hostname: '127.0.0.1', port, socket: { data() {} } })
  socket.end()
  return true
}

/** The path of a program, including administrators' ones. */
function findProgram(name: string): string {
  const path = Bun.which(name, { PATH: `${process.env.PATH}:/usr/sbin:/sbin` })
  if (path) return path
  throw new Error(`Cannot test with "${name}": it is not installed; "make test" installs its Debian package`)
}

export interface TemporaryFolder extends Disposable {
  path: string
  /** The path of a file in it. */
  file(name: string): string
}

/** A folder that is removed at the end. */
export function temporaryFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), 'sync-bridge-'))
  return {
    path,
    file: (name) => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { leash } from './leash.ts'
import { eventually } from './eventually.ts'

/** A program under test or beside it, which ends with the tests. */
export interface Program extends AsyncDisposable {
  readonly pid: number
  /** Everything that it printed so far, on both outputs. */
  output(): string
  /** Asks it to end, and insists after 2 s. Then its output is all there. */
  stop(): Promise<void>
}

/** Starts a program that has to be installed, and waits until it is ready. */
export async function startProgram(
  command: [string, ...string[]],
  isReady: () => boolean | Promise<boolean>,
  environment: Record<string, string> = {},
): Promise<Program> {
  const child = Bun.spawn([...leash('TERM'), findProgram(command[0]), ...command.slice(1)], {
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

/** Runs a script of bash with these arguments to its end, while everything else waits. */
export const runBash = (script: string, ...args: string[]) =>
  Bun.spawnSync(['bash', '-c', script, 'bash', ...args])

interface RunOptions {
  cwd?: string
  /** Besides PATH, which may be another one. */
  environment?: Record<string, string>
  /** What it reads; nothing unless told otherwise. */
  input?: string
}

/** Runs a program to its end; throws with what it printed when it fails. */
export async function runProgram(command: [string, ...string[]], options: RunOptions = {}): Promise<string> {
  const { output, errors, code } = await runToEnd([findProgram(command[0]), ...command.slice(1)], options)
  if (code !== 0) throw new Error(`"${command.join(' ')}" ended with ${code}:\n${output}${errors}`)
  return output + errors
}

/** A command, written as in a shell: what is filled in belongs to one word, whatever is in it. */
export function words(texts: TemplateStringsArray, ...values: string[]): [string, ...string[]] {
  const marked = String.raw({ raw: texts }, ...values.map((_, index) => `\0${index}\0`)).trim()
  const fillIn = (word: string) => word.replaceAll(/\0(\d+)\0/g, (_, index) => values[Number(index)]!)
  return marked.split(/\s+/).map(fillIn) as [string, ...string[]]
}

/** Runs a program to its end, however it ends. */
export async function runToEnd(command: string[], { cwd, environment, input }: RunOptions = {}) {
  const child = Bun.spawn(command, {
    ...(cwd !== undefined && { cwd }),
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ...environment },
    stdin: input === undefined ? 'ignore' : Buffer.from(input),
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

/** The processes that a process has started, and that run. */
export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return children.trim().split(' ').filter(Boolean).map(Number)
}

/** The most memory that a process has ever held. */
export function peakBytes(pid: number): number {
  const match = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(match![1]) * 1024
}

/** Whether something listens on a port of the loopback address; rejects when nothing does. */
export async function listens(port: number): Promise<boolean> {
  const socket = await Bun.connect({ hostname: '127.0.0.1', port, socket: { data() {} } })
  socket.end()
  return true
}

/** The path of a program; administrators' ones too. */
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

import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { dieWithParent } from './die-with-parent.ts'
import { linesIn } from './processes.ts'
import { recordOutput } from './recorded-output.ts'
import { startSandbox, type Sandbox, type SandboxOptions } from './sandbox.ts'
import { settingsOf, type GivenSettings } from './settings.ts'

// Another executable can be tested, such as one with a deliberate defect or a downloaded one.
/** The executable under test: only it has compiled code, bundled files, and a process of its own. */
export const executablePath =
  process.env.SYNC_BRIDGE_EXECUTABLE ?? join(import.meta.dir, '../../dist/sync-bridge')

/** Throws with the remedy if the executable has not been built. */
function requireExecutable(): void {
  if (existsSync(executablePath)) return
  throw new Error(`Cannot test the executable: there is no "${executablePath}"; run "make build" first`)
}

const folders = new Set<string>()

/** A new folder with these files, until `endAll`. */
export function makeFolder(files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-'))
  folders.add(folder)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 })
  return folder
}

interface ProcessOptions {
  cwd?: string
  /** In addition to PATH. */
  environment?: Record<string, string>
  /** A file descriptor that replaces the pipe that `lines` reads. */
  stdout?: number
  /** Another executable than the one under test. */
  executable?: string
  /** As an unprivileged user. */
  asOrdinaryUser?: boolean
}

/** A command of the executable that keeps running. */
export interface Running extends AsyncDisposable {
  readonly pid: number
  /** Its output so far, by line. */
  readonly lines: readonly string[]
  /** Its stderr so far. */
  errors(): string
  /** The events of that name that it has logged so far, as JSON. */
  events(name: string): Record<string, unknown>[]
  /** The first line that matches the pattern, with the groups of the match; rejects if the process ends before. */
  line(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>
  signal(name: NodeJS.Signals): void
  /** Its exit code, once all its output has been read. */
  readonly exited: Promise<number>
  /** Stops it like an operator; resolves to its exit code. */
  stop(): Promise<number>
}

/** Starts a command as an ordinary user. Its files and folders must be readable for everyone. */
export const dropRoot =
  process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : []

const alive = new Set<() => void>()

/** Kills the processes that a failed test has left and removes all folders; call it after the tests of a file. */
export function endAll(): void {
  for (const kill of alive) kill()
  for (const folder of folders) removeFolder(folder)
}

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  folders.delete(folder)
}

/** Starts a command of the executable. */
export function start(args: string[], options: ProcessOptions = {}): Running {
  requireExecutable()
  const { cwd = makeFolder(), environment = {}, stdout, executable = executablePath } = options
  const child = Bun.spawn(
    [...dieWithParent('KILL'), ...(options.asOrdinaryUser ? dropRoot : []), executable, ...args],
    {
      cwd,
      env: { PATH: '/usr/bin:/bin', ...environment },
      stdin: 'ignore',
      stdout: stdout ?? 'pipe',
      stderr: 'pipe',
    },
  )
  const kill = () => child.kill('SIGKILL')
  alive.add(kill)
  const lines: string[] = []
  let errors = ''
  let changed = Promise.withResolvers<void>()
  const noteChange = () => {
    changed.resolve()
    changed = Promise.withResolvers()
  }
  const printed = [readLines(child.stderr, (line) => void (errors += `${line}\n`))]
  if (child.stdout instanceof ReadableStream) {
    printed.push(
      readLines(child.stdout, (line) => {
        lines.push(line)
        noteChange()
      }),
    )
  }
  let exitCode: number | null = null
  const exited = child.exited.then(async (code) => {
    // The last lines may be read after the process has exited.
    await Promise.all(printed)
    // The sandbox and `init` print secrets on purpose.
    if (args[0] !== 'sandbox' && args[0] !== 'init') recordOutput([...lines, errors])
    alive.delete(kill)
    if (options.cwd === undefined) removeFolder(cwd)
    exitCode = code
    noteChange()
    return code
  })

  async function line(pattern: RegExp, timeoutMs = 60_000): Promise<RegExpExecArray> {
    // Unlike Bun.sleep, this does not keep the process alive once the line is there: make site ended a minute late.
    const deadline = new Promise<void>((resolve) => void setTimeout(resolve, timeoutMs).unref())
    let isLate = false
    void deadline.then(() => (isLate = true))
    for (let next = 0; ;) {
      for (; next < lines.length; next += 1) {
        const match = pattern.exec(lines[next]!)
        if (match) return match
      }
      if (isLate || exitCode !== null)
        throw new Error(`Timed out waiting for ${pattern}: exit code ${exitCode}\n${errors}`)
      await Promise.race([changed.promise, deadline])
    }
  }

  const stop = () => {
    child.kill('SIGTERM')
    return exited
  }
  return {
    pid: child.pid,
    lines,
    errors: () => errors,
    events: (name) =>
      lines
        .filter((each) => each.includes(`"event":"${name}"`))
        .map((each) => JSON.parse(each) as Record<string, unknown>),
    line,
    signal: (name) => child.kill(name),
    exited,
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  }
}

/** Runs a command of the executable until it exits. */
export async function run(args: string[], options: ProcessOptions = {}) {
  const running = start(args, options)
  const exitCode = await running.exited
  return { exitCode, lines: running.lines, stdout: running.lines.join('\n'), stderr: running.errors() }
}

/** The output of `sandbox --upstream-only`: server addresses, and the identity of its user. */
export interface Upstream {
  tokenServerUrl: string
  storageUrl: string
  bucket: string
  /** Headers that authenticate the user, by access token and by assertion. */
  bearer: Record<string, string>
  browserId: Record<string, string>
  /** The printed values. */
  values: Record<string, string>
  process: Running
}

/** Starts the upstream that the executable contains, in its own process. */
export async function startUpstream(args: string[] = []): Promise<Upstream> {
  const running = start(['sandbox', '--upstream-only', ...args])
  await running.line(/^SYNC_KEY_BASE64=/)
  const values: Record<string, string> = {}
  for (const line of running.lines) {
    const match = /^([A-Z_0-9]+)=(.*)$/.exec(line)
    if (match) values[match[1]!] = match[2]!
  }
  return {
    tokenServerUrl: values.TOKEN_SERVER_URL!,
    storageUrl: values.STORAGE_URL!,
    bucket: values.BUCKET!,
    bearer: { Authorization: `Bearer ${values.BEARER_TOKEN}`, 'X-KeyID': values.KEY_ID! },
    browserId: { Authorization: `BrowserID ${values.ASSERTION}` },
    values,
    process: running,
  }
}

/** Settings as the text of a file; by default with a secret, the memory cache and a free port. */
export function iniText(settings: Record<string, string>): string {
  const all = { port: '0', cache_backend: 'memory', cache_hmac_secret: 'ab'.repeat(32), ...settings }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}\n`)
  return `[service]\n${lines.join('')}`
}

export type Bridge = Awaited<ReturnType<typeof serve>>

/** Starts `serve` with these settings and waits until it listens. */
export async function serve(settings: Record<string, string>, options: ProcessOptions = {}) {
  const cwd = options.cwd ?? makeFolder()
  writeFileSync(join(cwd, 'bridge.ini'), iniText(settings), { mode: 0o600 })
  const running = start(['serve', '--config', 'bridge.ini'], { ...options, cwd })
  if (options.cwd === undefined) void running.exited.then(() => removeFolder(cwd))
  return { ...running, url: await listeningUrl(running) }
}

/** Scheme, host and port that `serve` listens on, once it does. */
export async function listeningUrl(running: Running): Promise<string> {
  const [, url] = await running.line(/\blistening\b.*\burl"?[=:]"?(http[^"\s]+)/)
  return url!
}

export interface ExecutableOptions extends GivenSettings, ProcessOptions {
  sandbox?: SandboxOptions
}

/** `serve` over a sandbox in this process, both stopped together. */
export interface Executable extends Bridge {
  readonly sandbox: Sandbox
}

/** Starts both. */
export async function startExecutable(options: ExecutableOptions = {}): Promise<Executable> {
  const sandbox = await startSandbox(options.sandbox)
  try {
    const bridge = await serve(settingsOf(options, sandbox), options)
    const stop = async () => {
      const code = await bridge.stop()
      await sandbox.stop()
      return code
    }
    return { ...bridge, sandbox, stop, [Symbol.asyncDispose]: async () => void (await stop()) }
  } catch (error) {
    await sandbox.stop()
    throw error
  }
}

async function readLines(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  for await (const line of linesIn(stream)) take(line)
}

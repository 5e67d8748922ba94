import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startSandbox } from './sandbox.ts'
import { keepPrinted } from './printed.ts'
import type { Sandbox, SandboxOptions } from './sandbox.ts'

export interface ExecutableOptions {
  /** Settings by name without `service.`, as text: `{ readonly: 'true' }`. */
  settings?: Record<string, string>
  /** Collections that may be put into and deleted from. */
  writable?: readonly string[]
  sandbox?: SandboxOptions
  /** Where the bridge thinks the token server is; the sandbox's when left out. */
  tokenServerUrl?: string
  /** Environment variables besides PATH. */
  environment?: Record<string, string>
}

/** The built executable, serving in a process of its own over a sandbox in this one. */
export interface Executable {
  /** Scheme, host and port that it listens on. */
  readonly url: string
  readonly pid: number
  readonly sandbox: Sandbox
  /** Every line of its standard output so far. */
  readonly logs: readonly string[]
  /** Everything on its standard error so far. */
  errors(): string
  /** Its exit code, or null when a signal ended it. */
  readonly exited: Promise<number | null>
  signal(name: NodeJS.Signals): void
  /** Ends it as an operator would, and the sandbox; resolves to its exit code. */
  stop(): Promise<number | null>
  /** Ends it as a crash would. The sandbox goes on until `stop`. */
  kill(): Promise<void>
}

// Another one can be tried with the same tests: one built with a defect on purpose, or one that was downloaded.
const executablePath = process.env.SYNC_BRIDGE_EXECUTABLE ?? join(import.meta.dir, '../../dist/sync-bridge')
const startMs = 30_000

/** Starts the executable with an INI file in a folder of its own. With the memory cache, unless told otherwise. */
export async function startExecutable(options: ExecutableOptions = {}): Promise<Executable> {
  if (!existsSync(executablePath))
    throw new Error(`Cannot test the executable: there is no "${executablePath}"; run "make build" first`)
  const sandbox = await startSandbox(options.sandbox)
  const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-executable-'))
  const settingsPath = join(folder, 'bridge.ini')
  writeFileSync(settingsPath, settingsText(options, sandbox), { mode: 0o600 })
  const child = Bun.spawn([executablePath, 'serve', '--config', settingsPath], {
    cwd: folder,
    env: { PATH: '/usr/bin:/bin', ...options.environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const guard = endWithUs(child.pid)

  const logs: string[] = []
  let errors = ''
  const listening = Promise.withResolvers<string>()
  const printed = Promise.all([
    readLines(child.stdout, (line) => {
      logs.push(line)
      const url = listeningUrl(line)
      if (url) listening.resolve(url)
    }),
    readLines(child.stderr, (line) => {
      errors += `${line}\n`
    }),
  ])
  const exited = child.exited.then(async (code) => {
    // The last lines may be read after the end of the process is known.
    await printed
    guard.kill('SIGKILL')
    keepPrinted([...logs, errors])
    rmSync(folder, { recursive: true, force: true })
    return child.signalCode === null ? code : null
  })

  async function stop(): Promise<number | null> {
    child.kill('SIGTERM')
    const code = await exited
    await sandbox.stop()
    return code
  }

  const url = await Promise.race([
    listening.promise,
    exited.then((code) => `exit code ${code}`),
    Bun.sleep(startMs).then(() => `no "listening" line in ${startMs} ms`),
  ])
  if (!url.startsWith('http')) {
    child.kill('SIGKILL')
    await sandbox.stop()
    throw new Error(`Cannot start "${executablePath}": ${url}\n${errors}`)
  }
  return {
    url,
    pid: child.pid,
    sandbox,
    logs,
    errors: () => errors,
    exited,
    signal: (name) => child.kill(name),
    stop,
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** Has a process killed when this one ends, however that happens: then the guard's standard input ends. */
function endWithUs(pid: number): Bun.Subprocess {
  const guard = Bun.spawn(['/bin/sh', '-c', `cat; kill -9 ${pid}`], {
    stdin: 'pipe',
    stdout: 'ignore',
    stderr: 'ignore',
  })
  guard.unref()
  return guard
}

function settingsText(options: ExecutableOptions, sandbox: Sandbox): string {
  const settings: Record<string, string> = {
    port: '0',
    token_server_url: options.tokenServerUrl ?? sandbox.tokenServerUrl,
    cache_backend: 'memory',
    cache_hmac_secret: randomBytes(32).toString('hex'),
    ...options.settings,
  }
  for (const collection of options.writable ?? []) {
    settings[`record_${collection}_put_enabled`] = 'true'
    settings[`record_${collection}_delete_enabled`] = 'true'
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`)
  return `[service]\n${lines.join('')}`
}

function listeningUrl(line: string): string | null {
  try {
    const { event, url } = JSON.parse(line) as { event?: unknown; url?: unknown }
    return event === 'listening' && typeof url === 'string' ? url : null
  } catch {
    return / listening url=(\S+)/.exec(line)?.[1] ?? null
  }
}

async function readLines(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) take(line)
  }
  if (rest !== '') take(rest)
}

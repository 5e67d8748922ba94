import { readFileSync, writeFileSync } from 'node:fs'

/** The measured process has its own core; upstream and load share the other. */
export const cores = { load: '0', measured: '1', both: '0,1' }

const started = new Set<Bun.Subprocess>()

export interface StartOptions {
  core: string
  environment?: Record<string, string>
  stdin?: 'ignore' | 'pipe'
  stdout?: 'ignore' | 'pipe'
  cwd?: string
}

/**
 * Starts a command bound to a core, with the scheduling policy of the service's unit; it only gets the environment variables needed to find
 * programs.
 */
export function start(
  command: string[],
  { core, environment = {}, stdin = 'ignore', stdout = 'ignore', cwd }: StartOptions,
) {
  const subprocess = Bun.spawn(['chrt', '--batch', '0', 'taskset', '-c', core, ...command], {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...environment },
    cwd,
    stdin,
    stdout,
    stderr: 'ignore',
  })
  started.add(subprocess)
  void subprocess.exited.then(() => started.delete(subprocess))
  return subprocess
}

/** Stops a process that was started here, and waits for it. */
export async function stop(subprocess: Bun.Subprocess): Promise<void> {
  subprocess.kill('SIGTERM')
  const timer = setTimeout(() => subprocess.kill('SIGKILL'), 3000)
  await subprocess.exited
  clearTimeout(timer)
}

export async function stopAll(): Promise<void> {
  await Promise.all([...started].map(stop))
}

/** The process and its children, for nginx and its worker. */
export function familyOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return [pid, ...(children === '' ? [] : children.split(' ').flatMap((child) => familyOf(Number(child))))]
}

/** CPU time so far, in microseconds, over all threads, including ended ones. */
export function cpuMicroseconds(pids: number[]): number {
  let ticks = 0
  for (const pid of pids) {
    // The part after the name, which may contain spaces: the state is first, user and system time are twelfth and thirteenth.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
    ticks += Number(fields[11]) + Number(fields[12])
  }
  // In hundredths of a second.
  return ticks * 10_000
}

/** Resident memory in MB. */
export function residentMegabytes(pids: number[]): number {
  return sumOfStatus(pids, 'VmRSS')
}

/** The peak of resident memory since `forgetPeak`, in MB. */
export function peakMegabytes(pids: number[]): number {
  return sumOfStatus(pids, 'VmHWM')
}

export function forgetPeak(pids: number[]): void {
  for (const pid of pids) writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

function sumOfStatus(pids: number[], field: string): number {
  let kilobytes = 0
  for (const pid of pids) {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    kilobytes += Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)![1])
  }
  return kilobytes / 1024
}

/** Resolves once something responds at that address. */
export async function untilAnswered(url: string, headers: Record<string, string> = {}): Promise<void> {
  for (let attempt = 0; attempt < 1000; attempt += 1) {
    try {
      const response = await fetch(url, { headers })
      await response.arrayBuffer()
      if (response.ok) return
    } catch {
      // Not yet.
    }
    await Bun.sleep(10)
  }
  throw new Error(`Nothing answers at ${url}`)
}

export function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = listener
  listener.stop(true)
  return port
}

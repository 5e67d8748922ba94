import { readdirSync, readFileSync } from 'node:fs'

/** CPU time that all threads of a process have used so far, in ms, with nanosecond resolution. */
export function processorMs(pid: number): number {
  let sum = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) sum += threadMs(pid, task)
  return sum
}

/** The same for its main thread, which runs the event loop. */
export function loopMs(pid: number): number {
  return threadMs(pid, String(pid))
}

function threadMs(pid: number, task: string): number {
  try {
    const [nanoseconds] = readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'latin1').split(' ')
    return Number(nanoseconds) / 1e6
  } catch {
    // The thread has just ended.
    return 0
  }
}

/** CPU time of this process for copying a text and parsing it as JSON once, in ms: the reference for others. */
export function plainMs(bytes: Uint8Array): number {
  const { user, system } = process.cpuUsage()
  const copy = new TextDecoder().decode(bytes)
  try {
    JSON.parse(copy)
  } catch {
    // Invalid JSON costs the time to detect that.
  }
  const used = process.cpuUsage({ user, system })
  return (used.user + used.system) / 1000
}

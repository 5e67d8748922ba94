import { readdirSync, readFileSync } from 'node:fs'

/** Processor time that a process has used so far in all of its threads, in ms, to the nanosecond. */
export function processorMs(pid: number): number {
  let sum = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) sum += threadMs(pid, task)
  return sum
}

/** That of its main thread, where its event loop runs. */
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

/** What this process needs to copy a text and to parse it as JSON, once, in ms of processor time: the measure for others. */
export function plainMs(bytes: Uint8Array): number {
  const { user, system } = process.cpuUsage()
  const copy = new TextDecoder().decode(bytes)
  try {
    JSON.parse(copy)
  } catch {
    // What is no JSON costs what it takes to find that out.
  }
  const used = process.cpuUsage({ user, system })
  return (used.user + used.system) / 1000
}

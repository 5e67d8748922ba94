import { writeFileSync } from 'node:fs'
import { cores, cpuMicroseconds, start } from './processes.ts'
import type { Subject } from './subjects.ts'

/** What one run of the load generator against one subject showed. */
export interface Run {
  requests: number
  requestsPerSecond: number
  /** Of the subject, per request; 0 where it is not measured. */
  cpuMicroseconds: number
  /** By `percentiles`, in ms. */
  latencies: number[]
  /** Answers that were no success, and connections that failed. */
  failures: number
}

export const percentiles = [1, 10, 25, 50, 75, 90, 95, 99, 99.9]

// Each of these users has an access token of their own.
const usersScript = (users: number) => `
local turn = 0
request = function()
  turn = (turn + 1) % ${users}
  wrk.headers["Authorization"] = string.format("Bearer %064d", turn)
  return wrk.format()
end
`

/** The script by which the load generator prints what it has seen as JSON. */
export const loadScript = `
done = function(summary, latency, requests)
  local parts = {}
  for _, p in ipairs({${percentiles.join(', ')}}) do parts[#parts + 1] = latency:percentile(p) / 1000 end
  local errors = summary.errors
  io.write(string.format('\\n{"requests":%d,"microseconds":%d,"failures":%d,"latencies":[%s]}\\n',
    summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout, table.concat(parts, ',')))
end
`

export interface LoadOptions {
  connections: number
  seconds: number
  /** The file with `loadScript`; for several users another one is written beside it. */
  script: string
  core?: string
}

/** As many requests as the subject answers, over so many connections at once. */
export async function load(subject: Subject, options: LoadOptions): Promise<Run> {
  const { seconds, script, core = cores.load } = options
  const { connections = options.connections, users } = subject
  const usedScript = users === undefined ? script : `${script}.${users}`
  if (users !== undefined) writeFileSync(usedScript, loadScript + usersScript(users))
  const headers = Object.entries(subject.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const cpuBefore = cpuMicroseconds(subject.pids)
  const wrk = start(
    ['wrk', '-t1', `-c${connections}`, `-d${seconds}s`, '-s', usedScript, ...headers, subject.url],
    { core, stdout: 'pipe' },
  )
  const text = await new Response(wrk.stdout as ReadableStream<Uint8Array>).text()
  const summary = JSON.parse(text.slice(text.lastIndexOf('\n{'))) as {
    requests: number
    microseconds: number
    failures: number
    latencies: number[]
  }
  return {
    requests: summary.requests,
    requestsPerSecond: (summary.requests * 1e6) / summary.microseconds,
    cpuMicroseconds: (cpuMicroseconds(subject.pids) - cpuBefore) / summary.requests,
    latencies: summary.latencies,
    failures: summary.failures,
  }
}

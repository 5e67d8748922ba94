import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { cores, cpuMicroseconds, start } from './processes.ts'
import type { Subject } from './subjects.ts'

/** The results of one run of the load generator against one subject. */
export interface Run {
  requests: number
  requestsPerSecond: number
  /** Of the subject, per request; 0 if not measured. */
  cpuMicroseconds: number
  /** By `percentiles`, in ms. */
  latencies: number[]
  /** Unsuccessful responses and failed connections. */
  failures: number
  /** Of the load generator, over the whole run. */
  loadMicroseconds: number
}

export const percentiles = [1, 10, 25, 50, 75, 90, 95, 99, 99.9]

// An identity is a number: it begins the key id, and its digits select five groups of three bytes for the client state, so Lua needs no
// encoding.
const groups = Array.from({ length: 1000 }, () => randomBytes(3))
const firstKeyId = 1_763_700_000
let identitiesGiven = 0
let scriptsWritten = 0

/** Requests of that many users in turn, or each of a new user. */
function usersScript(users: number | 'each'): string {
  const list = (encoding: 'hex' | 'base64url') =>
    groups.map((group) => `"${group.toString(encoding)}"`).join(',')
  const first = identitiesGiven
  // No run of seconds sends that many requests.
  identitiesGiven += 10_000_000
  return `
local hex, base64 = {${list('hex')}}, {${list('base64url')}}
local before, after
local turn = 0
local identity = function(number)
  local state, key, rest = "", "", number
  for _ = 1, 5 do
    state, key, rest = state .. hex[rest % 1000 + 1], key .. base64[rest % 1000 + 1], math.floor(rest / 1000)
  end
  wrk.headers["Authorization"] = string.format("Bearer %064d", number)
  wrk.headers["X-KeyID"] = string.format("%d-%sAA", ${firstKeyId} + number, key)
  return before and (before .. state .. "00" .. after) or wrk.path
end
local known = {}
init = function()
  before, after = wrk.path:match("^(/v1/buckets/)%x+(/.*)$")
  ${users === 'each' ? '' : `for number = 0, ${users} - 1 do known[number] = wrk.format(nil, identity(number)) end`}
end
request = function()
  turn = turn + 1
  return ${users === 'each' ? `wrk.format(nil, identity(${first} + turn))` : `known[turn % ${users}]`}
end
`
}

/** Waits before each request, that many ms on average, so that clients don't send at the same moment. */
const pauseScript = (ms: number) => `
delay = function() return math.floor(math.random() * ${2 * ms} + 0.5) end
`

/** The script with which the load generator prints its results as JSON. */
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
  /** The file with `loadScript`; additional scripts are written next to it. */
  script: string
  core?: string
  /** Each connection waits that many ms on average between requests. */
  pauseMs?: number
}

/** As many requests as the subject answers, over that many concurrent connections. */
export async function load(subject: Subject, options: LoadOptions): Promise<Run> {
  const { seconds, script, core = cores.load, pauseMs } = options
  const { connections = options.connections, users } = subject
  // Several subjects may run at once.
  const usedScript = `${script}.${(scriptsWritten += 1)}`
  const more = [users && usersScript(users), pauseMs && pauseScript(pauseMs)].filter(Boolean)
  writeFileSync(usedScript, [loadScript, ...more].join(''))
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
  await wrk.exited
  return {
    requests: summary.requests,
    requestsPerSecond: (summary.requests * 1e6) / summary.microseconds,
    cpuMicroseconds: (cpuMicroseconds(subject.pids) - cpuBefore) / summary.requests,
    latencies: summary.latencies,
    failures: summary.failures,
    loadMicroseconds: Number(wrk.resourceUsage()!.cpuTime.total),
  }
}

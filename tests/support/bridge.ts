import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { startBridge } from '../../src/service/bridge.ts'
import type { Host } from '../../src/cli/host.ts'
import { createLog } from '../../src/observability/log.ts'
import { fakeHost } from '../cli/fake-host.ts'
import { readSettings, type Settings } from '../../src/settings/settings.ts'
import { startSandbox, type Sandbox, type SandboxOptions } from './sandbox.ts'
import { recordOutput } from './recorded-output.ts'
import { settingsOf, type GivenSettings } from './settings.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

export interface TestBridgeOptions extends GivenSettings {
  sandbox?: SandboxOptions
  /** Wall clock of the bridge, ms since 1970. */
  now?(): number
  /** A monotonic clock in ms. */
  monotonicNow?(): number
  /** Resident memory of the process; default: 0. */
  residentBytes?(): number
  /** Whether it is the bridge of a command. */
  isForOnePerson?: boolean
}

/** A bridge in this process, over a sandbox with one user. On a real socket, because the runtime parses requests and completes responses. */
export interface TestBridge extends AsyncDisposable {
  url: string
  sandbox: Sandbox
  user: SandboxUser
  /** Every line that the bridge logged, at level debug. */
  logs: string[]
  /** Sends a request with the user's access token; `path` is relative to `/v1/buckets/<bucket>`, unless it begins with `/v1`. */
  ask(path: string, init?: AskInit): Promise<Answer>
  /** The headers that authenticate a user, with an access token or an assertion. */
  identityOf(user: SandboxUser, scheme?: 'Bearer' | 'BrowserID'): Record<string, string>
  /** Stops only the bridge, like SIGTERM. */
  end(graceMs: number): Promise<void>
  stop(): Promise<void>
}

export interface AskInit {
  method?: string
  headers?: Record<string, string>
  /** Sent as JSON; text is sent unchanged. */
  body?: unknown
  /** The user; default: the sandbox's first user. Null: no credentials. */
  as?: SandboxUser | null
}

export interface Answer {
  status: number
  headers: Headers
  text: string
  /** The body as JSON; undefined if it is empty. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
  body: any
}

/** Starts a bridge over a new sandbox; with the memory cache by default. */
export async function startTestBridge(options: TestBridgeOptions = {}): Promise<TestBridge> {
  const sandbox = await startSandbox(options.sandbox)
  const user = sandbox.addUser('alice')
  const logs: string[] = []
  const host = testHost(options)
  const log = createLog({
    renderer: 'json',
    level: 'debug',
    write: (line) => logs.push(line),
    now: host.now,
    colour: false,
    priorities: false,
  })
  const { isForOnePerson } = options
  const bridge = startBridge(readTestSettings(options, sandbox), host, log, {
    isForOnePerson,
  })
  const tokens = new Map<SandboxUser, Record<string, string>>()

  function identityOf(who: SandboxUser, scheme: 'Bearer' | 'BrowserID' = 'Bearer'): Record<string, string> {
    if (scheme === 'BrowserID') return { Authorization: `BrowserID ${who.assertion()}` }
    const known = tokens.get(who)
    if (known) return known
    const made = { Authorization: `Bearer ${who.bearerToken()}`, 'X-KeyID': who.keyId }
    tokens.set(who, made)
    return made
  }

  return {
    url: bridge.url,
    sandbox,
    user,
    logs,
    identityOf,
    ask: (path, { method = 'GET', headers = {}, body, as = user } = {}) => {
      const target =
        path.startsWith('/v') || path.startsWith('/_')
          ? path
          : `/v1/buckets/${(as ?? user).clientState}${path}`
      const type: Record<string, string> = body === undefined ? {} : { 'Content-Type': 'application/json' }
      return request(bridge.url + target, {
        method,
        headers: { ...(as && identityOf(as)), ...type, ...headers },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
    },
    end: (graceMs) => bridge.stop(graceMs),
    async stop() {
      await bridge.stop(0)
      recordOutput(logs)
      await sandbox.stop()
    },
    [Symbol.asyncDispose](this: TestBridge) {
      return this.stop()
    },
  }
}

/** Sends one request without following redirects, and reads the whole response. */
export async function request(url: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, { redirect: 'manual', ...init })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json')
  const body: unknown = text !== '' && isJson ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, text, body }
}

/** The settings of a bridge, by default with a token server that does not exist. */
export function readTestSettings(
  given: GivenSettings,
  upstream = { tokenServerUrl: 'http://127.0.0.1:1' },
): Settings {
  const environment = Object.fromEntries(
    Object.entries(settingsOf(given, upstream)).map(([name, value]) => [
      `SERVICE_${name.toUpperCase()}`,
      value,
    ]),
  )
  const outcome = readSettings({
    file: null,
    environment,
    readFile: (path) => readFileSync(path, 'utf8'),
  })
  if ('problems' in outcome) throw new Error(`Bad test settings: ${JSON.stringify(outcome.problems)}`)
  return outcome.settings
}

/** An operating system without files and environment, whose clocks and random numbers are real. */
export function testHost({
  now = Date.now,
  monotonicNow = () => performance.now(),
  residentBytes = () => 0,
}: TestBridgeOptions = {}): Host {
  const silent = { write: async () => null, isTty: false, isJournal: false }
  const real = { now, monotonicNow, randomBytes: (length: number) => new Uint8Array(randomBytes(length)) }
  return fakeHost({}, {}, { ...real, stdout: silent, stderr: silent, residentBytes, standalone: false })
}

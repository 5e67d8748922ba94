import {
  startSandbox as start,
  type Sandbox as PlainSandbox,
  type SandboxOptions as PlainOptions,
} from '../../src/sandbox/sandbox.ts'
import { dialectOf, type ServerKind } from './dialects.ts'

export type { WrittenRecord } from '../../src/sandbox/sandbox.ts'

export interface SandboxOptions extends PlainOptions {
  /** The server to imitate, where the four differ. @default 'postgres' */
  mode?: ServerKind
}

/** One request to a server. */
export interface LoggedRequest {
  readonly method: string
  /** Path and query as sent. */
  readonly target: string
  readonly headers: Headers
  /** Zero until it is answered. */
  status: number
  /** The error inside the sandbox if it returned 500. */
  failure?: unknown
}

/** The requests to a server, oldest first, at most the last 10 000. */
interface RequestLog {
  readonly entries: readonly LoggedRequest[]
  clear(): void
}

/** A sandbox that records its requests. */
export interface Sandbox extends PlainSandbox, AsyncDisposable {
  readonly requests: { readonly token: RequestLog; readonly storage: RequestLog }
}

const maxEntries = 10_000

/** Starts a sandbox that imitates one of the implementations, and logs its requests. A server, because what calls it only has its address. */
export async function startSandbox({ mode = 'postgres', ...options }: SandboxOptions = {}): Promise<Sandbox> {
  const requests = { token: createRequestLog(), storage: createRequestLog() }
  const sandbox = await start({
    dialect: dialectOf[mode](),
    ...options,
    onRequest: ({ server, method, target, headers }) =>
      requests[server].add({ method, target, headers: new Headers(headers) }),
  })
  return { ...sandbox, requests, [Symbol.asyncDispose]: sandbox.stop }
}

function createRequestLog() {
  const entries: LoggedRequest[] = []
  return {
    entries,
    clear: () => entries.splice(0),
    add(request: Pick<LoggedRequest, 'method' | 'target' | 'headers'>) {
      const entry: LoggedRequest = { ...request, status: 0 }
      entries.push(entry)
      if (entries.length > maxEntries) entries.shift()
      return (status: number, failure?: unknown) => {
        Object.assign(entry, { status, failure })
      }
    },
  }
}

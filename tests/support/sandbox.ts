import {
  startSandbox as start,
  type Sandbox as PlainSandbox,
  type SandboxOptions as PlainOptions,
} from '../../src/sandbox/sandbox.ts'
import { postgres, type Quirks } from '../../src/sandbox/options.ts'

export type { WrittenRecord } from '../../src/sandbox/sandbox.ts'

/** The storage implementation to imitate, where the four differ. */
type Mode = Quirks['kind']

export interface SandboxOptions extends PlainOptions {
  /** @default 'postgres' */
  mode?: Mode
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

// MariaDB's tables ignore case in names and hold Latin-1; its batch statements differ.
const mysql: Quirks = {
  ...postgres,
  kind: 'mysql',
  foldsIds: true,
  unorderedIds: true,
  unsortedFirst: false,
  listCap: 10_000,
  batchIdPattern: 'decimal',
  discardsBatches: false,
  appendOverwritesAll: true,
  storable: /^[\0-\u00ff]*$/,
}

const spanner: Quirks = {
  ...postgres,
  kind: 'spanner',
  // It rejects larger mutations, so its total is capped whatever is configured.
  limits: { ...postgres.limits, max_total_bytes: 100_000_000 },
  expiredCounts: false,
  defaultSort: 'none',
  unsortedFirst: false,
  plainOffsets: true,
  batchIdPattern: 'hex',
  storable: /^[^]*$/,
}

// The server before the current one.
const python: Quirks = {
  ...postgres,
  kind: 'python',
  limits: {
    max_request_bytes: 2_101_248,
    max_post_bytes: 2_097_152,
    max_post_records: 100,
    max_record_payload_bytes: 2_097_152,
    max_total_bytes: 209_715_200,
    max_total_records: 10_000,
  },
  isPython: true,
  foldsIds: true,
  expiredCounts: false,
  unsortedFirst: false,
  batchIdPattern: 'decimal',
  storable: /^[^]*$/,
}

const quirksOf: Record<Mode, Quirks> = { postgres, mysql, spanner, python }

/** Starts a sandbox that imitates one of the implementations, and logs its requests. */
export async function startSandbox({ mode = 'postgres', ...options }: SandboxOptions = {}): Promise<Sandbox> {
  const requests = { token: createRequestLog(), storage: createRequestLog() }
  const sandbox = await start({
    quirks: quirksOf[mode],
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

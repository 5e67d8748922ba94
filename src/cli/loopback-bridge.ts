import { ClientError } from '../client/errors.ts'
import { startBridge, type Bridge } from '../service/bridge.ts'
import { readSettings, renderProblem } from '../settings/settings.ts'
import { createOutputLog } from './output.ts'
import type { Insider } from '../service/observers.ts'
import type { Host } from './host.ts'

/** A bridge for one person on this machine. */
export interface LoopbackOptions {
  tokenServerUrl: string
  /** 0: any free port. */
  port: number
  /** Writable collections. */
  writable: Set<string>
  /** Maximum requests in a batch; default: that of a service. The storage commits as many together, in uploads of the size that it takes. */
  batchMaxRequests?: number
  /** Gets the causes of failures. */
  insider?: Insider
  /** Further settings, by their names in the environment. */
  environment: Record<string, string>
}

/**
 * Starts a bridge on loopback that needs nothing else on this machine. Throws if the port is in use, and `ClientError` for an invalid
 * setting.
 */
export function startLoopbackBridge(
  { tokenServerUrl, port, writable, batchMaxRequests, insider, environment }: LoopbackOptions,
  host: Host,
): Bridge {
  const all = {
    SERVICE_PORT: String(port),
    SERVICE_TOKEN_SERVER_URL: tokenServerUrl,
    SERVICE_CACHE_BACKEND: 'memory',
    SERVICE_CACHE_HMAC_SECRET: host.randomBytes(32).toHex(),
    SERVICE_LOGGING_RENDERER: 'text',
    SERVICE_LOGGING_LEVEL: 'warning',
    // A person waits for a slow storage rather than get an error.
    SERVICE_REQUEST_TIMEOUT_SECONDS: '300',
    SERVICE_UPSTREAM_TIMEOUT_SECONDS: '60',
    SERVICE_MAX_CONCURRENT_REQUESTS_PER_USER: '0',
    ...environment,
  }
  const outcome = readSettings({ file: null, environment: all, readFile: host.readFile })
  if ('problems' in outcome)
    throw new ClientError(`Cannot start a bridge: ${renderProblem(outcome.problems[0]!)}`)
  const settings = {
    ...outcome.settings,
    writable: { put: writable, delete: writable },
    ...(batchMaxRequests && { batchMaxRequests }),
  }
  return startBridge(settings, host, createOutputLog(settings, host, host.stderr).log, {
    isForOnePerson: true,
    insider,
  })
}

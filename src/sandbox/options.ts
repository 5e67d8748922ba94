import { defaultLimits, type Limits } from './limits.ts'
import { quirksOf, type Mode } from './quirks.ts'
import type { Switches } from './switches.ts'

/** How a sandbox is started. */
export interface SandboxOptions {
  /** @default '127.0.0.1' */
  hostname?: string
  /** @default 0, any free port */
  tokenPort?: number
  /** @default 0, any free port */
  storagePort?: number
  /** Scheme, host and port of `api_endpoint` when a proxy stands in front. @default the storage server's own */
  nodeUrl?: string
  /** What tokens are signed with. @default random */
  secret?: string
  /** Milliseconds since the epoch; everything that depends on time asks it. @default Date.now */
  clock?: () => number
  /** @default 3600 */
  tokenDurationSeconds?: number
  /** Which implementation to behave like where they differ. @default 'postgres' */
  mode?: Mode
  /** Most records in a list without limit. @default 10000 in mysql mode, else null: no cap */
  listCap?: number | null
  /** @default true */
  batching?: boolean
  /** Overrides of what `info/configuration` announces. */
  limits?: Partial<Limits>
  /** @default null, no quota */
  quotaKilobytes?: number | null
  /** @default true */
  newUsers?: boolean
  /** Added before every storage answer. @default 0 */
  latencyMs?: number
}

/** The settings that options begin with; the node's URL is empty when it is yet to be known. */
export function initialSwitches(options: SandboxOptions, mode: Mode): Switches {
  return {
    batching: options.batching ?? true,
    listCap: options.listCap === undefined ? quirksOf(mode).listCap : options.listCap,
    newUsers: options.newUsers ?? true,
    latencyMs: options.latencyMs ?? 0,
    tokenDurationSeconds: options.tokenDurationSeconds ?? 3600,
    limits: { ...defaultLimits(mode), ...options.limits },
    nodeUrl: options.nodeUrl?.replace(/\/+$/, '') ?? '',
    quotaKilobytes: options.quotaKilobytes ?? null,
    identityKinds: ['browserid', 'bearer'],
    audiences: ['http://127.0.0.1*', 'http://localhost*', `http://${options.hostname ?? '127.0.0.1'}*`],
    onFirstWrite: null,
    onNewAccount: null,
    healthy: true,
  }
}

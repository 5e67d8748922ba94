import { Bulkhead } from './bulkhead.ts'
import type { UpstreamTarget } from './send.ts'

/** How many calls may be under way at a time. All together stay below the runtime's 256 per process. */
export interface CallLimits {
  token: number
  storageNode: number
  storage: number
  /** How many more may wait at each of these, and for how long. */
  waiting: number
  waitMs: number
}

export const defaultCallLimits: CallLimits = {
  token: 32,
  storageNode: 64,
  storage: 192,
  waiting: 64,
  waitMs: 1000,
}

export interface Admission {
  /** Settles with what ends the call's place, to be called once; rejects with `overload`. */
  enter(target: UpstreamTarget, origin: string): Promise<() => void>
}

/** One bulkhead for the token server, one for each storage node, one for all of these. */
export function createAdmission(limits: CallLimits): Admission {
  const { waiting, waitMs } = limits
  const token = new Bulkhead('the token server', limits.token, waiting, waitMs)
  const storage = new Bulkhead('the storage', limits.storage, waiting, waitMs)
  const nodes = new Map<string, Bulkhead>()

  return {
    async enter(target, origin) {
      if (target === 'token') return await through(token)
      const leaveNode = await throughNode(origin)
      try {
        const leaveStorage = await through(storage)
        return () => {
          leaveStorage()
          leaveNode()
        }
      } catch (error) {
        leaveNode()
        throw error
      }
    },
  }

  async function throughNode(origin: string): Promise<() => void> {
    let node = nodes.get(origin)
    if (!node) nodes.set(origin, (node = new Bulkhead(`"${origin}"`, limits.storageNode, waiting, waitMs)))
    const leave = await through(node)
    return () => {
      leave()
      // Users' nodes come and go; an idle one has nothing to remember.
      if (node.isIdle) nodes.delete(origin)
    }
  }
}

async function through(bulkhead: Bulkhead): Promise<() => void> {
  await bulkhead.enter()
  return () => bulkhead.leave()
}

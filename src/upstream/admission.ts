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
  waiting: 512,
  waitMs: 1000,
}

/** Gives back a call's place; to be called once. */
export type Leave = () => void

export interface Admission {
  /** A place, at once while there is room; later it is a promise, which rejects with `overload`. */
  enter(target: UpstreamTarget, origin: string): Leave | Promise<Leave>
}

/** One bulkhead for the token server, one for each storage node, one for all of these. */
export function createAdmission(limits: CallLimits): Admission {
  const { waiting, waitMs } = limits
  const token = new Bulkhead('the token server', limits.token, waiting, waitMs)
  const storage = new Bulkhead('the storage', limits.storage, waiting, waitMs)
  const nodes = new Map<string, Bulkhead>()
  const leaveToken = () => token.leave()

  return {
    enter(target, origin) {
      if (target === 'token') return token.tryEnter() ? leaveToken : token.enter().then(() => leaveToken)
      const node = nodeOf(origin)
      const leaveNode = () => {
        node.leave()
        // Users' nodes come and go; an idle one has nothing to remember.
        if (node.isIdle) nodes.delete(origin)
      }
      const leave = () => {
        storage.leave()
        leaveNode()
      }
      if (!node.tryEnter()) return node.enter().then(() => enterStorage(leave, leaveNode))
      return storage.tryEnter() ? leave : enterStorage(leave, leaveNode)
    },
  }

  function nodeOf(origin: string): Bulkhead {
    let node = nodes.get(origin)
    if (!node) nodes.set(origin, (node = new Bulkhead(`"${origin}"`, limits.storageNode, waiting, waitMs)))
    return node
  }

  async function enterStorage(leave: Leave, leaveNode: Leave): Promise<Leave> {
    try {
      await storage.enter()
      return leave
    } catch (error) {
      leaveNode()
      throw error
    }
  }
}

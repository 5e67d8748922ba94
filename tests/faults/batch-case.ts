import type { Sandbox } from '../support/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** The shape of a batch. */
export interface Shape {
  kind: 'puts' | 'deletes' | 'mixed'
  requests: number
  collections: number
}

/** Contents by collection and id, without timestamps. */
export type Content = Record<string, Record<string, { payload: string; sortindex: number | null }>>

/** A batch, the stored records before it, and the stored records after it was fully applied. */
interface BatchCase {
  before: Content
  after: Content
  /** The sub-requests, without `/v1`. */
  requests: (bucket: string) => BatchRequest[]
}

export interface BatchRequest {
  method: 'PUT' | 'DELETE'
  path: string
  headers?: Record<string, string>
  body?: { data: { payload: string; sortindex?: number } }
}

/** Makes a case of that shape over these collections. Some puts create, some overwrite. */
export function makeCase({ kind, requests, collections }: Shape, names: string[]): BatchCase {
  const used = names.slice(0, collections)
  const before: Content = {}
  for (const name of used) before[name] = { bystander: { payload: 'not ours', sortindex: 7 } }
  const after = structuredClone(before)
  const made = Array.from({ length: requests }, (_, index) => {
    const name = used[index % collections]!
    const turn = collections === 1 ? index : Math.floor(index / collections) + index
    if (kind === 'deletes' || (kind === 'mixed' && turn % 2 === 1)) {
      const id = `old${index}`
      before[name]![id] = { payload: `to be deleted ${index}`, sortindex: index }
      return { method: 'DELETE' as const, collection: name, id }
    }
    const id = `new${index}`
    const data = { payload: `written ${index}`, ...(index % 2 === 0 && { sortindex: index }) }
    // Every third record exists already, some without a sortindex, which a write can't remove.
    const stored =
      index % 3 === 0 ? { payload: `stored ${index}`, sortindex: index % 4 === 0 ? null : 99 } : null
    if (stored) before[name]![id] = stored
    after[name]![id] = { payload: data.payload, sortindex: data.sortindex ?? stored?.sortindex ?? null }
    return { method: 'PUT' as const, collection: name, id, body: { data } }
  })
  return {
    before,
    after,
    requests: (bucket) =>
      made.map(({ method, collection, id, ...rest }) => ({
        method,
        path: `/buckets/${bucket}/collections/${collection}/records/${id}`,
        ...rest,
      })),
  }
}

/** Adds contents to a store as if written long ago. */
export function store(sandbox: Sandbox, user: SandboxUser, content: Content): void {
  const longAgo = Math.floor(sandbox.nowMs() / 10) * 10 - 3_600_000
  for (const [collection, records] of Object.entries(content)) {
    const timed = Object.entries(records).map(([id, fields], index) => ({
      id,
      ...fields,
      modified: longAgo + index * 10,
    }))
    sandbox.load(user, collection, timed)
  }
}

/** The current contents of the same collections. */
export function contentOf(sandbox: Sandbox, user: SandboxUser, collections: string[]): Content {
  return Object.fromEntries(
    collections.map((collection) => [
      collection,
      Object.fromEntries(
        sandbox.records(user, collection).map(({ id, payload, sortindex }) => [id, { payload, sortindex }]),
      ),
    ]),
  )
}

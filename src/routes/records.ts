import { invalidRequest } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import { overloadReply } from '../protocol/error-reply.ts'
import { readJson } from '../protocol/json.ts'
import type { BucketResource, Input } from '../protocol/record-resources.ts'
import type { Reply } from '../protocol/reply.ts'
import { bucketResources, isEnabled, methodNotAllowed } from '../protocol/resources.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import { discardBody } from './body.ts'
import type { Permit } from './load-shedding.ts'
import { execute, receiveBody, withStorage } from './session.ts'
import type { App } from './session.ts'
import type { Call, Services } from './services.ts'

/** Buckets, collections and records: read the request, ask the storage, answer. Routes that are added later need credentials too. */
export function addBucketRoutes(app: App, prefix: string, services: Services): void {
  const bucketApp = withStorage(app, services)
  for (const resource of bucketResources) {
    const { method, params, query, headers } = resource
    const path = prefix + resource.path
    const schemas = { params, query, headers, parse: 'none' } as const
    if (method === 'GET' || method === 'HEAD') {
      bucketApp.route(
        method,
        path,
        ({ params, query, headers, storage, call }) =>
          answer(resource, { params, query, headers, address: call }, storage, call, services),
        schemas,
      )
    } else {
      bucketApp.route(
        method,
        path,
        async ({ params, query, headers, storage, call }) => {
          await call.body?.arrived
          const body = call.body?.parse(storage.owner, readJson)
          return await answer(
            resource,
            { params, query, headers, body, address: call },
            storage,
            call,
            services,
          )
        },
        {
          ...schemas,
          transform({ params, call }) {
            requireEnabled(resource, params, services)
            // The body begins to arrive before the framework waits for the storage.
            if (method === 'PUT') receiveBody(call, services)
            else discardBody(call.request)
          },
        },
      )
    }
  }
}

/** Refuses a write that the operator did not enable, before credentials and body are looked at. */
function requireEnabled(resource: BucketResource, params: { '*'?: string }, services: Services): void {
  // With an empty id the path is the list's with a slash too many, which is redirected for every method.
  if (params['*'] === '' || isEnabled(resource, params, services.settings)) return
  const others = bucketResources.filter(({ path }) => path === resource.path)
  throw methodNotAllowed(resource.method, others, params, services.settings)
}

async function answer(
  resource: BucketResource,
  input: Input<object, object, object>,
  storage: BulkStorage,
  call: Call,
  services: Services,
): Promise<Reply> {
  call.route = resource.name
  const problems: Problem[] = []
  const operation = resource.operation(input, problems)
  if (problems.length > 0) throw invalidRequest(problems)
  const { owner } = storage
  // Only a list may have to wait for its turn, and nothing else pays for a wait.
  const permit = operation.kind === 'list' ? await acquireList(owner, services) : services.load.acquire(owner)
  if (!permit) return overloadReply(services.settings)
  let reply: Reply | null = null
  try {
    const outcome = await execute(operation, storage, call, services)
    return (reply = resource.answer(outcome, input, services.settings))
  } finally {
    // A list is in flight until the last byte of it was handed on.
    if (reply?.body instanceof ReadableStream) reply.ended = () => permit.release()
    else permit.release()
  }
}

/** A permit for a list, which waits for its turn among the lists of its user; null: it must be rejected. */
async function acquireList(user: string, { load, streams }: Services): Promise<Permit | null> {
  const turn = await streams.acquire(user)
  const permit = turn && load.acquire(user)
  if (!permit) turn?.release()
  return (
    permit && {
      release() {
        permit.release()
        turn.release()
      },
    }
  )
}

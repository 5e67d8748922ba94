import { toResponse } from '../protocol/envelope.ts'
import { overloadReply } from '../protocol/error-reply.ts'
import { majorVersion } from '../protocol/exposed.ts'
import type { Reply } from '../protocol/reply.ts'
import { splitUrl } from './context.ts'
import type { Services, Visit } from './services.ts'

/**
 * The answer for a request that is one too many, before the framework has seen it and without reading more of it than
 * is needed: refusing has to cost a fraction of answering. Null: go on. Only what asks for somebody's data is refused.
 */
export function refuseExcess(request: Request, services: Services): Response | Promise<Response> | null {
  const { load } = services
  if (!load.isBusy() || !isForData(request, services) || !load.refuses(userOf(request))) return null
  services.observeRefusal(request.method)
  const turn = load.refusalTurn()
  return turn === null ? refuse(request, services) : turn.then(() => refuse(request, services))
}

function isForData({ method, url }: Request, { settings }: Services): boolean {
  if (method === 'OPTIONS') return false
  const { path } = splitUrl(url)
  const start = `/v${majorVersion(settings)}/`
  return path.startsWith(`${start}buckets/`) || path === `${start}batch`
}

/** What tells the user of a request from others, before it is known whether it is of any use: the assertion. */
export function userOf({ headers }: Request): string {
  const authorization = headers.get('authorization') ?? ''
  return authorization.slice(authorization.lastIndexOf(' ') + 1)
}

function refuse({ headers }: Request, { settings, now, isStopping }: Services): Response {
  const response = toResponse(overloadReply(settings), headers.get('origin'), settings, now())
  if (isStopping()) response.headers.set('Connection', 'close')
  return response
}

/** Answers a request while it counts as one of that user's. A streamed answer counts until the last of it is sent. */
export async function whileCounted(
  user: string,
  { load }: Services,
  answer: (visit: Visit) => Promise<Reply>,
): Promise<Reply> {
  const visit = load.begin(user)
  let isStreamed = false
  try {
    const reply = await answer(visit)
    isStreamed = reply.body instanceof ReadableStream
    if (reply.body instanceof ReadableStream) reply.body = untilEnd(reply.body, visit)
    return reply
  } finally {
    if (!isStreamed) visit.end()
  }
}

// The server cancels what it can't send, also when the client has left before the answer began.
function untilEnd(body: ReadableStream<Uint8Array>, visit: Visit): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (!done) return controller.enqueue(value)
          visit.end()
          controller.close()
        } catch (error) {
          visit.end()
          throw error
        }
      },
      cancel(reason) {
        visit.end()
        return reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
}

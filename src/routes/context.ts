import type { Resource } from '../protocol/target.ts'
import type { Services, Work } from './services.ts'

/** What is known of a request before it is routed. */
export interface RequestContext {
  startedAtMs: number
  /** The same moment on a clock that never goes back. */
  monotonicStartMs: number
  /** What the client calls this request, or what we do. */
  requestId: string
  /** Filled in as it is done. */
  work: Work
  origin: string | null
  /** Null where the target named nothing that we have. */
  resource: Resource | null
  /** As it was sent, with the question mark, or empty. */
  query: string
  /** The path as it was sent, without the query. */
  path: string
}

const contexts = new WeakMap<Request, RequestContext>()

/** Keeps what the guard found out about a request for those who answer it. */
export function setContext(request: Request, context: RequestContext): void {
  contexts.set(request, context)
}

/** What the guard found out about a request. */
export function contextOf(request: Request): RequestContext {
  const context = contexts.get(request)
  if (!context) throw new Error('A request came past the guard')
  return context
}

/** The name that the client gave a request, or else one of ours. Other characters could forge log lines downstream. */
export function requestIdOf(
  headers: Headers,
  { createRequestId }: Pick<Services, 'createRequestId'>,
): string {
  const given = headers.get('x-request-id')
  return given !== null && /^[\w.-]{1,64}$/.test(given) ? given : createRequestId()
}

/** Path and query of a request's URL, which is relative when the client sent no usable Host. */
export function splitUrl(url: string): { path: string; query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  const question = url.indexOf('?', start)
  if (question === -1) return { path: url.slice(start), query: '' }
  return { path: url.slice(start, question), query: url.slice(question) }
}

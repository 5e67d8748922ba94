/** Resources of the service itself, and the batch. Clients read the root view first. Every export is a resource. */
import {
  describeResponse,
  ApiDocumentResponse,
  BatchResponses,
  HeartbeatResponse,
  noticeHeaders,
  RootResponse,
  VersionResponse,
} from './responses.ts'
import { credentials, declareService } from './resource.ts'
import { BatchBody, BatchHeaders, FilePath, RootHeaders } from './schemas.ts'

export const batch = declareService({
  name: 'batch',
  method: 'POST',
  path: '/batch',
  headers: BatchHeaders,
  body: BatchBody,
  tag: 'Batch',
  id: 'batch',
  summary: 'Send many requests as one transaction',
  description:
    'Each sub-request sees the effects of the earlier ones. A rejected one does not affect the others, unless the ' +
    'batch is strict (`Prefer: handling=strict`): then nothing is written if any is rejected. If the storage fails, ' +
    'the response is 503 and none of them has any effect. Each inherits `defaults`, and the conditional headers of ' +
    'the batch request if it has none of its own.',
  responses: {
    200: describeResponse('The responses to the sub-requests, in order', BatchResponses, [
      ...noticeHeaders,
      'Preference-Applied?',
    ]),
  },
  errorStatuses: [400, 401, 410, 413, 415, 500, 503],
  security: credentials,
})

const open = { method: 'GET', tag: 'Service', errorStatuses: [400, 410] } as const

const about = (name: string, id: string, summary: string) =>
  ({ ...open, name, path: `/__${name}__`, id, summary }) as const

export const root = declareService({
  ...open,
  name: 'root',
  path: '/',
  headers: RootHeaders,
  id: 'getRoot',
  summary: 'Get information about this service',
  description: 'With valid credentials, `user` identifies their owner.',
  responses: { 200: describeResponse('The root view', RootResponse) },
  errorStatuses: [400, 410, 503],
  security: [{}, ...credentials],
})

export const heartbeat = declareService({
  ...about('heartbeat', 'getHeartbeat', 'Check the token server and the cache'),
  description: 'Also available without the version prefix.',
  responses: {
    200: describeResponse('Both are available', HeartbeatResponse),
    503: describeResponse('At least one is unavailable', HeartbeatResponse, ['Retry-After', 'Alert?']),
  },
  errorStatuses: [400],
})

export const lbheartbeat = declareService({
  ...about('lbheartbeat', 'getLbheartbeat', 'Check that this process responds'),
  description: 'For load balancers. Also available without the version prefix.',
  responses: { 200: describeResponse('This process responds; the body is empty', null) },
  errorStatuses: [400],
})

export const version = declareService({
  ...about('version', 'getVersion', 'Get the version'),
  responses: { 200: describeResponse('The version', VersionResponse) },
})

export const openapi = declareService({
  ...about('api', 'getApi', 'Get this document'),
  name: 'openapi',
  responses: { 200: describeResponse('An OpenAPI 3 document', ApiDocumentResponse) },
})

export const metrics = declareService({
  ...about('metrics', 'getMetrics', 'Get the metrics'),
  description:
    'In the text format of Prometheus. Names, labels and values contain nothing about users or their records.',
  responses: { 200: describeResponse('The metrics', 'text/plain') },
})

// The first segment of its path names a page, and the files that it loads.
const page = (path: string, id: string, summary: string) => {
  const responses = { 200: describeResponse('The page', 'text/html') }
  return { ...open, name: path.split('/')[1]!, path, id, summary, responses }
}

export const docs = declareService(page('/docs', 'getDocs', 'Open the API page'))
export const guides = declareService(
  page('/docs/guides', 'getGuides', 'Open the guides, and find the other pages'),
)
export const explore = declareService(page('/explore', 'getExplorer', 'Open a page to look at your own data'))

// A page loads its files by itself: the document leaves them out, because there is nothing to try.
const file = (path: string) =>
  declareService({ ...page(path, 'getFile', 'Load a part of a page'), params: FilePath, hide: true })

export const docsFile = file('/docs/*')
export const exploreFile = file('/explore/*')

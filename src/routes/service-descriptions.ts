/** What the API document says of each operation that is about this service itself. */
import type { DocumentDecoration } from 'elysia'
import { ApiDocumentAnswer, HeartbeatAnswer, RootAnswer, VersionAnswer } from '../protocol/answer-schemas.ts'
import { answers, plainHeaders } from './api-answers.ts'
import type { FailureStatus } from './api-answers.ts'
import { clientState, credentials, fileName } from './api-parameters.ts'

const serviceFailures: FailureStatus[] = [400, 410]

export const rootDescription: DocumentDecoration = {
  operationId: 'getRoot',
  tags: ['Service'],
  summary: 'See what this service is',
  description: 'With credentials that the token server accepts, `user` tells whose they are.',
  security: [{}, ...credentials],
  parameters: [
    { ...clientState, description: 'The client state that goes with an assertion', deprecated: false },
  ],
  responses: answers(
    [{ status: 200, description: 'The root view', headers: plainHeaders, schema: RootAnswer }],
    serviceFailures,
  ),
}

export const versionDescription: DocumentDecoration = {
  operationId: 'getVersion',
  tags: ['Service'],
  summary: 'See which build this is',
  responses: answers(
    [{ status: 200, description: 'The version', headers: plainHeaders, schema: VersionAnswer }],
    serviceFailures,
  ),
}

export const heartbeatDescription: DocumentDecoration = {
  operationId: 'getHeartbeat',
  tags: ['Service'],
  summary: 'See whether the token server and the cache answer',
  description: 'Also answered without the version prefix.',
  responses: answers(
    [
      { status: 200, description: 'They do', headers: plainHeaders, schema: HeartbeatAnswer },
      {
        status: 503,
        description: 'One of them does not',
        headers: ['Retry-After', 'Alert?'],
        schema: HeartbeatAnswer,
        example: { storage: false, cache: true, permission: true },
      },
    ],
    [400],
  ),
}

export const lbheartbeatDescription: DocumentDecoration = {
  operationId: 'getLbheartbeat',
  tags: ['Service'],
  summary: 'See whether this process answers',
  description: 'For load balancers. Also answered without the version prefix.',
  responses: answers(
    [{ status: 200, description: 'It does; the body is empty', headers: plainHeaders }],
    [400],
  ),
}

export const documentDescription: DocumentDecoration = {
  operationId: 'getApi',
  tags: ['Service'],
  summary: 'Read this document',
  responses: answers(
    [
      {
        status: 200,
        description: 'An OpenAPI 3 document',
        headers: plainHeaders,
        schema: ApiDocumentAnswer,
      },
    ],
    serviceFailures,
  ),
}

export const pageDescription: DocumentDecoration = {
  operationId: 'getDocs',
  tags: ['Service'],
  summary: 'Open the page of this document',
  responses: answers(
    [{ status: 200, description: 'The page', headers: plainHeaders, type: 'text/html' }],
    serviceFailures,
  ),
}

export const explorerDescription: DocumentDecoration = {
  ...pageDescription,
  operationId: 'getExplorer',
  summary: "Open a page to look at one's own data",
}

/** Of the files that a page loads. */
export function fileDescription(names: string[], operationId = 'getDocsFile'): DocumentDecoration {
  return {
    operationId,
    tags: ['Service'],
    summary: 'Load a part of that page',
    parameters: [fileName(names)],
    responses: answers(
      [{ status: 200, description: 'The file', headers: plainHeaders, type: '*/*' }],
      [...serviceFailures, 404],
    ),
  }
}

export const metricsDescription: DocumentDecoration = {
  operationId: 'getMetrics',
  tags: ['Service'],
  summary: 'Read the metrics',
  description: 'In the text format of Prometheus. No name, label or figure tells of users or their records.',
  responses: answers(
    [{ status: 200, description: 'The metrics', headers: plainHeaders, type: 'text/plain' }],
    [400, 410],
  ),
}

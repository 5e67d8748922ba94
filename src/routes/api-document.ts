/** The API document as a whole: everything around its operations. */
import type { TSchema } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { DocumentDecoration } from 'elysia'
import { canonicalNames } from '../protocol/check.ts'
import type { Resource } from '../protocol/record-resources.ts'
import { majorVersion } from '../protocol/reply.ts'
import type { ExposedSettings } from '../protocol/reply.ts'
import { resources } from '../protocol/resources.ts'
import {
  ApiDocumentAnswer,
  BatchAnswer,
  CollectionsAnswer,
  ErrorAnswer,
  ExposedRecord,
  HeartbeatAnswer,
  InvalidRequestAnswer,
  ListAnswer,
  Metadata,
  MetadataAnswer,
  PreconditionFailedAnswer,
  ProblemItem,
  RecordAnswer,
  RootAnswer,
  SubResponse,
  TombstoneAnswer,
  VersionAnswer,
} from '../protocol/answer-schemas.ts'
import { BatchBody, RecordBody, RecordFields, SubRequest } from '../protocol/schemas.ts'
import { answerComponents } from './api-answers.ts'
import { operations } from './api-operations.ts'
import { isServed } from './guard.ts'
import { toOpenApiSchema } from './openapi-schema.ts'
import type { Json } from './openapi-schema.ts'

const introduction = `
The collections of a Firefox Sync storage as JSON records, encrypted as they are: this service never holds the key.

**To try it**, send an access token together with its \`X-KeyID\`, or an identity assertion. The command \`sync-bridge sandbox\`
starts a storage with sample data and prints a link to a page of this document where both, and the \`bucket_id\`, are filled in.

**Timestamps** are whole milliseconds since 1970. An \`ETag\` is a timestamp in quotes, and \`_since\` takes it as it is.

**Errors** have one shape: \`code\` is the status, \`errno\` says what happened in a number that does not change, \`message\` says
it to people. \`Retry-After\` comes with 429 and every status from 500.

**Any answer** may carry \`Alert\`, which announces the end of the service, and any success \`Backoff\`: seconds to stay away.
HEAD answers wherever GET does, and OPTIONS everywhere, for browsers that ask what they may send.
`.trim()

/** The tag of the operations that are GET without the body. */
const headTag = 'Headers only'

const tags = [
  { name: 'Records', description: 'What devices have stored' },
  { name: 'Collections', description: 'What there is, and when it changed' },
  { name: 'Batch', description: 'Many requests at once' },
  { name: 'Service', description: 'What this is, and whether it is well' },
  { name: headTag, description: 'HEAD: what GET would answer, without the body' },
]

const namedSchemas = [
  ExposedRecord,
  RecordAnswer,
  ListAnswer,
  RecordBody,
  RecordFields,
  TombstoneAnswer,
  Metadata,
  MetadataAnswer,
  CollectionsAnswer,
  BatchBody,
  SubRequest,
  BatchAnswer,
  SubResponse,
  ErrorAnswer,
  InvalidRequestAnswer,
  ProblemItem,
  PreconditionFailedAnswer,
  RootAnswer,
  VersionAnswer,
  HeartbeatAnswer,
  ApiDocumentAnswer,
]

const securitySchemes = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'An OAuth access token for Sync. It needs its key id beside it: give both.',
  },
  keyId: {
    type: 'apiKey',
    in: 'header',
    name: 'X-KeyID',
    description: 'Goes with the access token: `<keys_changed_at>-<base64url client state>`',
  },
  browserid: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description:
      'Instead of those two, an identity assertion: the word `BrowserID`, a blank, and the assertion',
  },
}

/** Everything but the paths. */
function documentHead(settings: ExposedSettings) {
  return {
    info: { title: settings.projectName, version: settings.projectVersion, description: introduction },
    servers: [{ url: `/v${majorVersion(settings)}` }],
    tags,
    components: {
      schemas: Object.fromEntries(namedSchemas.map((schema) => [schema.title!, toOpenApiSchema(schema)])),
      ...answerComponents(),
      securitySchemes,
    },
  }
}

/**
 * The API document as JSON text, made from the declarations of the resources with everything that these settings serve.
 * The plugin makes its frame; the page that shows it is ours.
 */
export async function writeApiDocument(settings: ExposedSettings, hasMetrics: boolean): Promise<string> {
  const { swagger } = await import('@elysiajs/swagger')
  const documentation = documentHead(settings) as NonNullable<Parameters<typeof swagger>[0]>['documentation']
  const app = new Elysia()
  for (const resource of resources) {
    const { name, method, path } = resource
    if (!isServed(name, settings, hasMetrics)) continue
    const key = `${method} ${name}${path.endsWith('/:file') ? '/:file' : ''}`
    const detail = { ...operations[key], parameters: parametersOf(resource) }
    app.route(method, path.replace('*', ':record_id'), () => '', { detail })
  }
  app.use(
    swagger({
      path: '/ui',
      specPath: '/document',
      exclude: ['/ui', '/document'],
      ...(documentation && { documentation }),
    }),
  )
  const answer = await app.handle(new Request('http://localhost/document'))
  const document = await answer.json()
  addHeadOperations(document)
  return JSON.stringify(document)
}

// The security schemes describe these headers.
const undescribed = new Set(['authorization', 'x-keyid'])

function parametersOf({ params, query, headers }: Resource): Parameter[] {
  return [
    ...describe('path', params.properties),
    ...describe('query', query.properties),
    ...describe('header', headers.properties),
  ]
}

type Parameter = Extract<NonNullable<DocumentDecoration['parameters']>[number], { name: string }>

function describe(place: 'path' | 'query' | 'header', properties: Record<string, TSchema>): Parameter[] {
  return Object.entries(properties)
    .filter(([key]) => !undescribed.has(key))
    .map(([key, schema]) => {
      const { description, example, ...rest } = toOpenApiSchema(schema)
      return {
        in: place,
        name: canonicalNames[key] ?? key,
        ...(place === 'path' && { required: true }),
        ...(schema.deprecated === true && { deprecated: true }),
        ...(typeof description === 'string' && { description }),
        schema: rest as NonNullable<Parameter['schema']>,
        ...(example !== undefined && { example }),
      }
    })
}

interface Operation {
  operationId: string
  summary: string
  tags: string[]
  responses: Record<string, Json>
}

interface ApiDocument {
  paths: Record<string, Record<string, Operation>>
  components: { responses: Record<string, Json> }
}

/** Adds the HEAD that answers beside every GET, and takes the bodies out of the answers to any HEAD. */
function addHeadOperations(document: ApiDocument): void {
  for (const methods of Object.values(document.paths)) {
    const { get } = methods
    const head = methods.head ?? (get && headOf(get))
    if (head) methods.head = { ...head, responses: withoutBodies(head.responses, document) }
  }
}

function headOf(get: Operation): Operation {
  return {
    ...get,
    operationId: get.operationId.replace(/^(get|list)/, 'head'),
    summary: `${get.summary}: the headers alone`,
    tags: [headTag],
  }
}

function withoutBodies(responses: Operation['responses'], { components }: ApiDocument) {
  return Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      const shared = components.responses[String(response.$ref).replace(/^.*\//, '')]
      const { description, headers } = shared ?? response
      return [status, { description, headers }]
    }),
  )
}

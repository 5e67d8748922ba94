/** The API document as a whole: what stands around its operations. */
import { majorVersion } from '../protocol/exposed.ts'
import type { ExposedSettings } from '../protocol/exposed.ts'
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
import { toOpenApiSchema } from './openapi-schema.ts'
import type { Json } from './openapi-schema.ts'

const introduction = `
The collections of a Firefox Sync storage as JSON records, encrypted as they are: this service never holds the key.

**To try it**, press *Authorize* and give an access token together with its \`X-KeyID\`, or an identity assertion. The command
\`sync-bridge sandbox\` starts a storage with sample data and prints all of these, and the \`bucket_id\` that goes with them.

**Timestamps** are whole milliseconds since 1970. An \`ETag\` is a timestamp in quotes, and \`_since\` takes it as it is.

**Errors** have one shape: \`code\` is the status, \`errno\` says what happened in a number that does not change, \`message\` says
it to people. \`Retry-After\` comes with 429 and every status from 500.

**Any answer** may carry \`Alert\`, which announces the end of the service, and any success \`Backoff\`: seconds to stay away.
HEAD answers wherever GET does, and OPTIONS everywhere, for browsers that ask what they may send.
`.trim()

/** The tag of the operations that are GET without the body. */
export const headTag = 'Headers only'

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
export function documentHead(settings: ExposedSettings) {
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
export function addHeadOperations(document: ApiDocument): void {
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

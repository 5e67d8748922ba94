/** The API document: what the routes say of themselves, as OpenAPI. */
import type { TSchema } from '@sinclair/typebox'
import { registerSchemaPath } from '@elysiajs/swagger/utils'
import { answerComponents, type DocumentedAnswer } from '../protocol/answers.ts'
import { parameterName } from '../protocol/check.ts'
import { documentedAs } from '../protocol/schemas.ts'
import type { App } from './call.ts'

const introduction = `
The collections of a Firefox Sync storage as JSON records, encrypted as they are: this service never holds the key.

**To try it**, send an access token together with its \`X-KeyID\`, or an identity assertion. The command \`sync-bridge sandbox\`
starts a storage with sample data and prints a link to a page of this document where both, and the \`bucket_id\`, are filled in.

**Timestamps** are whole milliseconds since 1970. An \`ETag\` is a timestamp in quotes, and \`_since\` takes it as it is.

**Errors** have one shape: \`code\` is the status, \`errno\` says what happened in a number that does not change, \`message\` says
it to people. By the \`code\` one knows the \`details\`: all that is wrong with 400 and 415, the stored record with 412.
\`Retry-After\` comes with 429 and every status from 500.

**Any answer** may carry \`Alert\`, which announces the end of the service, and any success \`Backoff\`: seconds to stay away.
HEAD answers wherever GET does, and OPTIONS everywhere, for browsers that ask what they may send.
`.trim()

/** The tag of the operations that are GET without the body. */
const headTag = 'Headers only'

const tags = {
  Records: 'What devices have stored',
  Collections: 'What there is, and when it changed',
  Batch: 'Many requests at once',
  Service: 'What this is, and whether it is well',
  [headTag]: 'HEAD: what GET would answer, without the body',
}

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

const license = { name: 'MPL-2.0', url: 'https://www.mozilla.org/MPL/2.0/' }

interface Operation {
  operationId: string
  summary: string
  tags: string[]
  parameters?: { name: string; in: string }[]
  responses: Record<string, DocumentedAnswer | { $ref: string }>
  hide?: boolean
}

/** The API document as JSON text, with every route below the prefix. */
export function writeApiDocument(
  routes: App['routes'],
  prefix: string,
  info: { title: string; version: string },
): string {
  const paths: Record<string, Record<string, Operation>> = {}
  const add = (method: string, path: string, detail: Operation, hooks: object) =>
    registerSchemaPath({ schema: paths as object, path, method, hook: { ...hooks, detail }, models: {} })
  const heads = new Set(routes.filter(({ method }) => method === 'HEAD').map(({ path }) => path))
  for (const { method, path, hooks } of routes) {
    const detail = hooks.detail as Operation
    if (!path.startsWith(prefix) || detail.hide) continue
    const template = path.slice(prefix.length).replace('*', ':record_id')
    add(method, template, method === 'HEAD' ? bodiless(detail) : detail, hooks)
    if (method === 'GET' && !heads.has(path)) add('HEAD', template, headOf(detail), hooks)
  }
  for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods))) {
    delete operation.hide
    // Headers that are credentials are no parameters in OpenAPI.
    operation.parameters = operation.parameters
      ?.filter(({ name }) => name !== 'authorization' && name !== 'x-keyid')
      .map((parameter) => ({ ...parameter, name: parameterName(parameter.name, parameter.in) }))
  }
  const schemas = {}
  return JSON.stringify({
    openapi: '3.0.3',
    info: { ...info, description: introduction, license },
    servers: [{ url: prefix }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: toOpenApi(paths, schemas),
    components: { ...(toOpenApi(answerComponents, schemas) as object), securitySchemes, schemas },
  })
}

/** A GET is a HEAD too, which answers the headers alone. */
function headOf(get: Operation): Operation {
  const operationId = get.operationId.replace(/^(get|list)/, 'head')
  const summary = `${get.summary}: the headers alone`
  return { ...bodiless(get), operationId, summary, tags: [headTag] }
}

function bodiless(operation: Operation): Operation {
  const responses = Object.entries(operation.responses).map(([status, response]) => {
    const shown = 'headers' in response ? response : answerComponents.responses[`Status${status}`]!
    return [status, { ...shown, content: undefined }]
  })
  return { ...operation, responses: Object.fromEntries(responses) }
}

/** Translates schemas into those of OpenAPI 3.0, which has no `patternProperties`. One with a title becomes a component. */
function toOpenApi(value: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => toOpenApi(item, components))
  if (typeof value !== 'object' || value === null) return value
  if (documentedAs in value) return toOpenApi(value[documentedAs], components)
  const { title, patternProperties, ...same } = value as TSchema
  if (title !== undefined) {
    components[title] ??= toOpenApi({ ...value, title: undefined }, components)
    return { $ref: `#/components/schemas/${title}` }
  }
  if (patternProperties) [same.additionalProperties] = Object.values(patternProperties)
  // The examples of a body stand beside its schema.
  if ('type' in same) delete same.examples
  return Object.fromEntries(Object.entries(same).map(([key, member]) => [key, toOpenApi(member, components)]))
}

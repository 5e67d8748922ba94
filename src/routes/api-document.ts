/** Writes the API document (OpenAPI) from the routes. */
import type { TSchema } from '@sinclair/typebox'
import { registerSchemaPath } from '@elysiajs/swagger/utils'
import { responseComponents, type DocumentedResponse } from '../protocol/responses.ts'
import { parameterName } from '../protocol/check.ts'
import { documentedAs } from '../protocol/schemas.ts'
import type { App } from './call.ts'

const introduction = `
The collections of a Firefox Sync storage as encrypted JSON records. This service never has the encryption key.

**To try it**, send an access token with its \`X-KeyID\`, or an identity assertion. The command \`sync-bridge sandbox\`
starts a storage with sample data and prints a link to this page with both, and the \`bucket_id\`, filled in.

**Timestamps** are integer milliseconds since 1970. An \`ETag\` is a timestamp in quotes; you can use it as \`_since\`.

**Errors** have one form: \`code\` is the status, \`errno\` a stable error number, and \`message\` a text for people. \`details\`
depend on the \`code\`: all problems for 400 and 415, the stored record for 412. 429 and 5xx come with \`Retry-After\`.

**Any response** may have an \`Alert\`, which announces the end of the service. Any successful response may have a
\`Backoff\`: seconds to wait before the next request. HEAD works wherever GET does, OPTIONS everywhere.
`.trim()

/** The tag of HEAD operations. */
const headTag = 'Headers only'

const tags = {
  Records: "The data of the user's devices",
  Collections: 'Names and timestamps of collections',
  Batch: 'Many requests in one transaction',
  Service: 'Information, health and pages of this service',
  [headTag]: 'HEAD: like GET, without the body',
}

const securitySchemes = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'An OAuth access token for Sync. Also requires the key id.',
  },
  keyId: {
    type: 'apiKey',
    in: 'header',
    name: 'X-KeyID',
    description: 'Required with the access token: `<keys_changed_at>-<base64url client state>`',
  },
  browserid: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description: 'Alternative to the other two, an identity assertion: `BrowserID <assertion>`',
  },
}

const license = { name: 'MPL-2.0', url: 'https://www.mozilla.org/MPL/2.0/' }

interface Operation {
  operationId: string
  summary: string
  tags: string[]
  parameters?: { name: string; in: string }[]
  responses: Record<string, DocumentedResponse | { $ref: string }>
  hide?: boolean
}

/** Writes the API document as JSON, with every route below the prefix. */
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
    // In OpenAPI, credentials are security schemes and not parameters.
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
    components: { ...(toOpenApi(responseComponents, schemas) as object), securitySchemes, schemas },
  })
}

/** The HEAD operation of a GET. */
function headOf(get: Operation): Operation {
  const operationId = get.operationId.replace(/^(get|list)/, 'head')
  const summary = `${get.summary}: headers only`
  return { ...bodiless(get), operationId, summary, tags: [headTag] }
}

function bodiless(operation: Operation): Operation {
  const responses = Object.entries(operation.responses).map(([status, response]) => {
    const shown = 'headers' in response ? response : responseComponents.responses[`Status${status}`]!
    return [status, { ...shown, content: undefined }]
  })
  return { ...operation, responses: Object.fromEntries(responses) }
}

/** Translates schemas to OpenAPI 3.0, which has no `patternProperties`. A schema with a title becomes a component. */
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
  // OpenAPI has the examples of a body next to its schema.
  if ('type' in same) delete same.examples
  return Object.fromEntries(Object.entries(same).map(([key, member]) => [key, toOpenApi(member, components)]))
}

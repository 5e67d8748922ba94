import { afterAll, describe, expect, it } from 'bun:test'
import type { Answer } from '../support/bridge.ts'
import { ListQuery } from '../../src/protocol/schemas.ts'
import { operationsOf, resolve, type ApiDocument, type ApiResponse } from './api-document.ts'
import { startDocumentedWorld } from './documented-world.ts'
import { askWell, provoke, withFault } from './provoke.ts'
import { schemaMismatches } from './schema-mismatches.ts'

const world = await startDocumentedWorld()
const document: ApiDocument = (await world.well.ask('/v1/__api__', { as: null })).body
afterAll(() => world.stop())

/** The headers that this protocol defines, without those of every HTTP server. */
const protocolHeaders = new Set(
  'etag last-modified next-page total-records total-objects quota-remaining backoff alert retry-after'.split(
    ' ',
  ),
)
for (const name of ['www-authenticate', 'allow', 'preference-applied', 'x-request-id'])
  protocolHeaders.add(name)

/** The differences between a response and its description in the document. */
function answerMismatches(answer: Answer, response: ApiResponse, method: string): string[] {
  const headers = Object.entries(response.headers ?? {}).map(([name, header]) => ({
    name,
    ...resolve(document, header),
  }))
  const documented = new Set(headers.map(({ name }) => name.toLowerCase()))
  const type = answer.headers.get('content-type')?.split(';')[0]
  const [documentedType, content] = Object.entries(response.content ?? {})[0] ?? []
  const isRightType = method === 'HEAD' || documentedType === type || (documentedType === '*/*' && type)
  return [
    ...[...answer.headers.keys()]
      .filter((name) => protocolHeaders.has(name) && !documented.has(name))
      .map((name) => `${name} is not documented`),
    ...headers
      .filter(({ name, required }) => required && !answer.headers.has(name))
      .map(({ name }) => `${name} is missing`),
    ...headers
      .filter(({ name }) => answer.headers.has(name))
      .flatMap(({ name, schema }) => {
        const value = answer.headers.get(name)!
        return schemaMismatches(document, schema, schema.type === 'string' ? value : Number(value), name)
      }),
    ...(isRightType ? [] : [`the type is ${type}, not ${documentedType}`]),
    ...(content && documentedType === 'application/json'
      ? schemaMismatches(document, content.schema, documentedType === type ? answer.body : answer.text)
      : []),
    ...(!content && answer.text !== '' ? ['there is a body'] : []),
  ]
}

describe('the API document', () => {
  it('documents every status of every operation, with its headers and its body', async () => {
    const problems: string[] = []
    const seenHeaders = new Set<string>()

    for (const { path, method, operation } of operationsOf(document)) {
      for (const [status, response] of Object.entries(operation.responses)) {
        const answer = await provoke({ path, method }, Number(status), world)
        const place = `${operation.operationId} ${status}`
        if (answer?.status !== Number(status))
          problems.push(`${place}: got ${answer?.status} ${answer?.text}`)
        else {
          const mismatches = answerMismatches(answer, resolve(document, response), method)
          problems.push(...mismatches.map((mismatch) => `${place}: ${mismatch}`))
          for (const name of answer.headers.keys()) seenHeaders.add(name)
        }
      }
    }
    const paged = await world.well.ask('/collections/bookmarks/records?_limit=1')
    for (const name of paged.headers.keys()) seenHeaders.add(name)

    expect(problems).toEqual([])
    expect([...protocolHeaders].filter((name) => !seenHeaders.has(name))).toEqual([])
  })

  it('has the status of every success, and every one that a storage response can cause', async () => {
    const problems: string[] = []

    for (const { path, method, operation } of operationsOf(document)) {
      if (!path.startsWith('/buckets')) continue
      for (const status of [null, 400, 401, 403, 404, 409, 413, 429, 500, 503, 513]) {
        const ask = () => askWell({ path, method }, world)
        const answer =
          status === null ? await ask() : await withFault(world, { kind: 'status', status, body: '0' }, ask)
        const response = operation.responses[answer.status]
        const mismatches = response
          ? answerMismatches(answer, resolve(document, response), method)
          : [`${answer.status} is not documented`]
        problems.push(
          ...mismatches.map((text) => `${operation.operationId}, storage ${status ?? 'well'}: ${text}`),
        )
      }
    }

    expect(problems).toEqual([])
  })

  it('has the statuses of a collection that is not exposed, and of too many root views', async () => {
    const problems: string[] = []

    for (const { path, method, operation } of operationsOf(document)) {
      const status = path === '/' ? 503 : path.includes('{collection_id}') ? 404 : null
      if (status === null) continue
      const answer = await provoke({ path, method }, status, world)
      if (!(answer!.status in operation.responses))
        problems.push(`${operation.operationId}: ${answer!.status} is not documented`)
    }

    expect(problems).toEqual([])
  })

  it('has every method that is served at its paths', async () => {
    const problems: string[] = []

    for (const [path, methods] of Object.entries(document.paths)) {
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']) {
        const { status } = await askWell({ path, method }, world)
        const answers = status !== 405 && status !== 404
        if (answers !== method.toLowerCase() in methods) problems.push(`${method} ${path}: ${status}`)
      }
    }

    expect(problems).toEqual([])
  })

  it('has every route', () => {
    const documented = new Set(
      operationsOf(document).map(({ path, method }) => `${method} ${path === '/' ? '' : path}`),
    )

    const routes = world.defective.routes.map(({ method, path }) => {
      const template = path
        .replace(/^\/v1/, '')
        .replaceAll(/:(\w+)/g, '{$1}')
        .replace('*', '{record_id}')
      return `${method} ${template === '/' ? '' : template}`
    })

    expect(routes.length).toBeGreaterThan(15)
    // A page loads its files by itself: there is nothing to try.
    expect(routes.filter((route) => !documented.has(route))).toEqual(['GET /docs/{record_id}'])
  })

  it('has every parameter of a list, and their choices are accepted', async () => {
    const list = document.paths['/buckets/{bucket_id}/collections/{collection_id}/records']!.get!
    const inQuery = list.parameters!.filter((parameter) => parameter.in === 'query')
    const choices = inQuery.find(({ name }) => name === '_sort')!.schema.enum!

    const statuses = await Promise.all(
      choices.map(async (choice) => {
        const answer = await world.well.ask(`/collections/bookmarks/records?_sort=${String(choice)}`)
        return answer.status
      }),
    )

    expect(inQuery.map(({ name }) => name)).toEqual(Object.keys(ListQuery.properties))
    expect(new Set(statuses)).toEqual(new Set([200]))
  })
})

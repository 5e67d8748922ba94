import { afterAll, describe, expect, it } from 'bun:test'
import { startTestBridge } from '../support/bridge.ts'
import { operationsOf, type ApiDocument } from './api-document.ts'
import { brokenRules } from './openapi-rules.ts'

const bridge = await startTestBridge()
const document: ApiDocument = (await bridge.ask('/v1/__api__', { as: null })).body
afterAll(() => bridge.stop())

describe('GET /__api__', () => {
  it('is an OpenAPI 3.0 document that breaks none of its rules', async () => {
    const problems = await brokenRules(document)

    expect(document.openapi).toBe('3.0.3')
    expect(problems).toEqual([])
  })

  it('gives every operation a unique id', () => {
    const ids = operationsOf(document)
      .filter(({ method, operation }) => method !== 'HEAD' || operation.operationId === 'countRecords')
      .map(({ operation }) => operation.operationId)

    expect(ids.toSorted()).toEqual(
      (
        'batch countRecords deleteRecord getApi getBucket getCollection getDocs getGuides ' +
        'getHeartbeat getLbheartbeat getMetrics getRecord getRoot getVersion listCollections ' +
        'listRecords putRecord'
      ).split(' '),
    )
  })

  it('accepts both kinds of credentials for everything in a bucket', () => {
    const inBuckets = operationsOf(document).filter(({ path }) => /^\/(buckets|batch)/.test(path))

    const security = new Set(inBuckets.map(({ operation }) => JSON.stringify(operation.security)))

    expect([...security]).toEqual(['[{"bearer":[],"keyId":[]},{"browserid":[]}]'])
    expect(document.components.securitySchemes).toMatchObject({
      bearer: { type: 'http', scheme: 'bearer' },
      keyId: { type: 'apiKey', in: 'header', name: 'X-KeyID' },
      browserid: { type: 'apiKey', in: 'header', name: 'Authorization' },
    })
  })

  it('needs no credentials for the root view, which accepts them, and asks for none elsewhere', () => {
    const outside = operationsOf(document).filter(({ path }) => !/^\/(buckets|batch)/.test(path))

    const securityOf = (wanted: (path: string) => boolean) =>
      new Set(
        outside.filter(({ path }) => wanted(path)).map(({ operation }) => JSON.stringify(operation.security)),
      )

    expect([...securityOf((path) => path === '/')]).toEqual([
      '[{},{"bearer":[],"keyId":[]},{"browserid":[]}]',
    ])
    expect([...securityOf((path) => path !== '/')]).toEqual(['[]'])
  })

  it('names the service as configured, and the version that is served', async () => {
    await using named = await startTestBridge({
      settings: { project_name: 'Our Sync', http_api_version: '2.0', docs_enabled: 'false' },
    })

    const { body } = await named.ask('/v2/__api__', { as: null })

    expect(body).toMatchObject({ info: { title: 'Our Sync' }, servers: [{ url: '/v2' }] })
    expect(Object.keys(body.paths)).not.toContain('/docs')
  })
})

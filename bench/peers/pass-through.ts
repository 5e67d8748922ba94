/** The minimum for this runtime between a client and a server: passes each response on as it arrives. */
import { readFileSync } from 'node:fs'

const { UPSTREAM: target = '', UPSTREAM_CA: caPath } = process.env
const overTls =
  caPath === undefined ? {} : { protocol: 'http1.1' as const, tls: { ca: readFileSync(caPath, 'utf8') } }

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(process.env.PORT),
  development: false,
  idleTimeout: 240,
  async fetch({ url, headers }) {
    const response = await fetch(target + url.slice(url.indexOf('/', 8)), {
      headers: { Authorization: headers.get('authorization') ?? '' },
      redirect: 'manual',
      decompress: false,
      ...overTls,
    })
    return new Response(response.body, { status: response.status, headers: response.headers })
  },
})

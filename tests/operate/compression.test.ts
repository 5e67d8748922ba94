import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { freePort } from '../support/free-port.ts'
import { listens, startProgram, temporaryFolder, type Program } from '../support/processes.ts'

// Real proxies, because each changes the entity tag of what it compresses in its own way, and clients return it.

const folder = temporaryFolder()
let bridge: TestBridge

beforeAll(async () => {
  bridge = await startTestBridge()
  const records = Array.from({ length: 40 }, (_, index) => ({ id: `r${index}`, payload: 'x'.repeat(200) }))
  bridge.sandbox.write(bridge.user, 'history', records)
})

afterAll(async () => {
  await bridge?.stop()
  folder[Symbol.dispose]()
})

interface Proxy {
  name: string
  /** The codings that it compresses with. */
  codings: string[]
  start(port: number, origin: string): Promise<Program>
}

const apache: Proxy = {
  name: 'Apache',
  codings: ['gzip', 'br'],
  start(port, origin) {
    const modules = '/usr/lib/apache2/modules'
    const names = ['mpm_event', 'authz_core', 'proxy', 'proxy_http', 'filter', 'deflate', 'brotli']
    const file = folder.file('apache.conf')
    const lines = [
      `ServerRoot ${folder.path}`, `DefaultRuntimeDir ${folder.path}`, `PidFile ${folder.file('apache.pid')}`,
      'ServerName localhost', `Listen 127.0.0.1:${port}`, `ErrorLog ${folder.file('apache.log')}`,
      ...names.map((name) => `LoadModule ${name}_module ${modules}/mod_${name}.so`),
      'ProxyPreserveHost On', 'AllowEncodedSlashes NoDecode', `ProxyPass / ${origin}/ nocanon`,
      ...(process.getuid?.() === 0 ? ['User nobody', 'Group nogroup'] : []),
      'SetOutputFilter BROTLI_COMPRESS;DEFLATE',
    ] // prettier-ignore
    writeFileSync(file, lines.join('\n') + '\n')
    return startProgram(['apache2', '-D', 'FOREGROUND', '-f', file], () => listens(port))
  },
}

const nginx: Proxy = {
  name: 'nginx',
  codings: ['gzip'],
  start(port, origin) {
    const file = folder.file('nginx.conf')
    const http = [
      'access_log off;', `client_body_temp_path ${folder.file('body')};`, `proxy_temp_path ${folder.file('proxy')};`,
      `fastcgi_temp_path ${folder.file('f')};`, `uwsgi_temp_path ${folder.file('u')};`, `scgi_temp_path ${folder.file('s')};`,
      'gzip on; gzip_min_length 1; gzip_proxied any; gzip_types application/json;',
      `server { listen 127.0.0.1:${port}; location / { proxy_pass ${origin}; proxy_set_header Host $http_host; } }`,
    ] // prettier-ignore
    writeFileSync(
      file,
      `daemon off; pid ${folder.file('nginx.pid')}; error_log stderr error; events {}\nhttp { ${http.join('\n')} }\n`,
    )
    return startProgram(['nginx', '-c', file, '-p', folder.path, '-e', 'stderr'], () => listens(port))
  },
}

const caddy: Proxy = {
  name: 'Caddy',
  codings: ['gzip', 'zstd'],
  start(port, origin) {
    const file = folder.file('Caddyfile')
    const site = `http://127.0.0.1:${port} {\n  encode zstd gzip {\n    minimum_length 1\n  }\n  reverse_proxy ${origin}\n}\n`
    writeFileSync(file, `{\n  admin off\n}\n${site}`)
    // Without these, it keeps its configuration in the current folder.
    const environment = { XDG_DATA_HOME: folder.path, XDG_CONFIG_HOME: folder.path }
    const command: [string, ...string[]] = ['caddy', 'run', '--config', file, '--adapter', 'caddyfile']
    return startProgram(command, () => listens(port), environment)
  },
}

const bucket = () => `/v1/buckets/${bridge.user.clientState}`
const addresses = () => [
  '/v1/',
  '/v1/__api__',
  bucket(),
  `${bucket()}/collections`,
  `${bucket()}/collections/history`,
  `${bucket()}/collections/history/records`,
  `${bucket()}/collections/history/records?_limit=20`,
  `${bucket()}/collections/history/records?in_ids=r1,r2`,
  `${bucket()}/collections/history/records/r1`,
]

describe.each([apache, nginx, caddy])('behind $name, which compresses', ({ codings, start }) => {
  let program: Program
  let origin: string

  beforeAll(async () => {
    const port = freePort()
    origin = `http://127.0.0.1:${port}`
    program = await start(port, bridge.url)
  })

  afterAll(() => program?.stop())

  it.each(codings)('every address takes the entity tag that it sent with %s', async (coding) => {
    const ask = (path: string, headers: Record<string, string> = {}) =>
      fetch(origin + path, {
        headers: { ...bridge.identityOf(bridge.user), 'Accept-Encoding': coding, ...headers },
      })
    const encodings = new Set<string | null>()
    for (const path of addresses()) {
      const first = await ask(path)
      await first.arrayBuffer()
      encodings.add(first.headers.get('content-encoding'))
      const tag = first.headers.get('etag')
      const again = await ask(path, tag === null ? {} : { 'If-None-Match': tag })
      await again.arrayBuffer()
      expect([path, first.status, again.status]).toEqual([path, 200, tag === null ? 200 : 304])

      if (!path.endsWith('/records')) continue
      // As the Kinto clients for JavaScript and for Python keep it.
      for (const since of [tag!, tag!.replaceAll('"', ''), tag!.replace(/^"|"$/g, '')]) {
        const changes = await ask(`${path}?_since=${encodeURIComponent(since)}`)
        expect([since, changes.status, await changes.json()]).toEqual([since, 200, { data: [] }])
      }
    }
    expect(encodings).toContain(coding)
  })
})

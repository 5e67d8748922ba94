import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { connect as connectTo } from 'node:net'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { makeCertificates, type Certificates } from '../../support/certificates.ts'
import { endAll, makeFolder } from '../../support/executable.ts'
import { startSandbox, type Sandbox } from '../../support/sandbox.ts'
import { accountFile, runAlone, valuesOf } from './world.ts'

let sandbox: Sandbox
let certificates: Certificates
/** The token server and the storage, with a certificate of an authority that nobody trusts, for a name that does not resolve. */
let servers: Bun.Server<undefined>
/** What the proxy was asked. */
let asked: string[] = []
let proxy: Bun.TCPSocketListener<{ upstream: ReturnType<typeof connectTo> | null }>
let account: string

beforeAll(async () => {
  sandbox = await startSandbox()
  const user = sandbox.addUser('behind a proxy')
  fillSampleData(sandbox, user, { bookmarks: 5, history: 3 })
  certificates = await makeCertificates(makeFolder(), 'DNS:tokens.invalid')
  servers = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: Bun.file(certificates.certificatePath), key: Bun.file(certificates.keyPath) },
    fetch: ({ url, headers }) => {
      const { pathname, search } = new URL(url)
      const server = pathname.startsWith('/1.0/') ? sandbox.tokenServerUrl : sandbox.storageUrl
      // The storage checks signatures over the address that the client used.
      headers.set('Forwarded', 'host="tokens.invalid:443";proto=https')
      return fetch(server + pathname + search, { headers })
    },
  })
  sandbox.switches.nodeUrl = 'https://tokens.invalid'
  proxy = startProxy(servers.port!)
  account = accountFile({ ...valuesOf(sandbox, user), TOKEN_SERVER_URL: 'https://tokens.invalid' })
})

afterAll(async () => {
  proxy.stop(true)
  await Promise.all([servers.stop(true), sandbox.stop()])
  endAll()
})

/** A proxy that connects every client to the same port of this machine. */
function startProxy(port: number) {
  return Bun.listen<{ upstream: ReturnType<typeof connectTo> | null }>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        socket.data = { upstream: null }
      },
      data(socket, bytes) {
        if (socket.data.upstream) return void socket.data.upstream.write(bytes)
        const [line = '', ...headers] = bytes.toString('latin1').split('\r\n')
        const credentials = headers.find((header) => /^proxy-authorization:/i.test(header)) ?? ''
        asked.push(`${line.replace(/ HTTP.*/, '')} ${credentials.split(' ').at(-1)}`.trim())
        const upstream = connectTo(port, '127.0.0.1')
        upstream.on('data', (more) => void socket.write(more))
        upstream.on('error', () => socket.end())
        upstream.on('close', () => socket.end())
        socket.data.upstream = upstream
        socket.write('HTTP/1.1 200 Connected\r\n\r\n')
      },
      close: (socket) => void socket.data.upstream?.end(),
    },
  })
}

async function ls(environment: Record<string, string>, ...words: string[]) {
  asked = []
  const { errors, code } = await runAlone(account, ['ls', ...words], environment)
  return { errors, code, asked: [...new Set(asked)] }
}

// A proxy and TLS, because the runtime reads HTTPS_PROXY, and opens the tunnel.
describe("a company's proxy", () => {
  const address = () => `127.0.0.1:${proxy.port}`
  const withPassword = () => `http://me:word@${address()}`
  const connected = `CONNECT tokens.invalid:443 ${btoa('me:word')}`

  it.each(['HTTPS_PROXY', 'https_proxy'])('is used for https addresses: %s', async (name) => {
    const outcome = await ls({ [name]: withPassword() }, '--ca', certificates.caPath)

    expect(outcome).toEqual({ errors: '', code: 0, asked: [connected] })
  })

  it('is named without its password if requests fail, with what to do', async () => {
    const opening = await ls({ HTTPS_PROXY: withPassword() })
    const other = await ls({ HTTP_PROXY: withPassword(), ALL_PROXY: withPassword() })

    const note = `https requests go through the proxy ${address()}, because HTTPS_PROXY is set. If it opens TLS connections, trust its certificate with --ca FILE\n`
    expect(opening.errors).toEndWith(`. ${note}`)
    expect(opening.errors).not.toContain('word')
    expect(other.errors).toEndWith('. HTTP_PROXY is not used: if you need a proxy, set HTTPS_PROXY\n')
    expect([opening.code, other.code, other.asked]).toEqual([1, 1, []])
  })

  it('gets no request for an address in NO_PROXY, nor for this machine', async () => {
    const excepted = await ls({ HTTPS_PROXY: withPassword(), NO_PROXY: 'a.example, .invalid' })
    const local = await ls({ HTTPS_PROXY: withPassword() }, '--bridge', `https://127.0.0.1:${servers.port}`)

    expect([excepted.code, excepted.asked]).toEqual([1, []])
    expect([local.code, local.asked]).toEqual([1, []])
  })
})

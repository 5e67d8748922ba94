import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import {
  listens,
  runProgram,
  startProgram,
  type Program,
  type TemporaryFolder,
} from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'

import type { Certificates } from '../support/certificates.ts'

// As root, nginx warns about this line on stderr; without it, its workers run as nobody.
const userDirective = process.getuid?.() === 0 ? 'user root; ' : ''

/** The balancer settings that an operator must choose. */
export interface Site {
  folder: TemporaryFolder
  certificates: Certificates
  /** The address for clients. */
  port: number
  /** The ports of its bridges. */
  nodes: number[]
}

type Change = [from: string, to: string]

/** A proxy in front of bridges, configured as documented. The program itself, because it decides what a configuration does to requests. */
export interface Balancer {
  name: string
  bridges: 1 | 2
  /** Validates the configuration and starts with it; applies changes to the documented one. */
  start(site: Site, changes?: Change[]): Promise<Program>
}

const examples = join(import.meta.dir, '../../docs/examples')

/** The documented configuration with the operator's changes; each change must match. */
function adapted(name: string, changes: Change[]): string {
  let text = readFileSync(join(examples, name), 'utf8')
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`docs/examples/${name} does not contain "${from}"`)
    text = text.replaceAll(from, to)
  }
  return text
}

function portChanges({ nodes }: Site): Change[] {
  return [
    ['127.0.0.1:8001', `127.0.0.1:${nodes[0]}`],
    ['127.0.0.1:8002', `127.0.0.1:${nodes[1]}`],
  ]
}

export const haproxy: Balancer = {
  name: 'HAProxy',
  bridges: 2,
  async start(site, changes = []) {
    const { folder, certificates, port } = site
    const pem = folder.file('haproxy.pem')
    writeFileSync(
      pem,
      readFileSync(certificates.certificatePath, 'utf8') + readFileSync(certificates.keyPath, 'utf8'),
    )
    const file = folder.file(`haproxy-${port}.cfg`)
    const own: Change[] = [
      ['bind :443', `bind 127.0.0.1:${port}`],
      ['/etc/haproxy/sync.example.org.pem', pem],
      ['log /dev/log local0', 'log stdout format raw local0'],
    ]
    writeFileSync(file, adapted('haproxy.cfg', [...own, ...portChanges(site), ...changes]))
    const checked = await runProgram(['haproxy', '-c', '-f', file])
    if (/warning|alert/i.test(checked)) throw new Error(checked)
    return startProgram(['haproxy', '-db', '-f', file], () => listens(port))
  },
}

interface Nginx extends Balancer {
  /** What an operator does before and after a bridge is stopped: nginx does not notice by itself. */
  markDown(program: Program, site: Site, index: number, isDown: boolean): Promise<void>
}

export const nginx: Nginx = {
  name: 'nginx',
  bridges: 2,
  start: (site, changes = []) =>
    startNginx('nginx.conf', site, [
      ['fail_timeout=5s', 'fail_timeout=1s'],
      ...portChanges(site),
      ...changes,
    ]),
  async markDown(program, { folder, port, nodes }, index, isDown) {
    const file = folder.file(`site-${port}.conf`)
    const text = readFileSync(file, 'utf8')
    const [up, down] = [`server 127.0.0.1:${nodes[index]} max`, `server 127.0.0.1:${nodes[index]} down max`]
    writeFileSync(file, isDown ? text.replace(up, down) : text.replace(down, up))
    const reloads = () => program.output().split('start worker processes').length
    const before = reloads()
    process.kill(program.pid, 'SIGHUP')
    await eventually('nginx has new workers', () => reloads() > before)
  },
}

export const nginxOfOne: Balancer = {
  name: 'nginx for one',
  bridges: 1,
  start: (site, changes = []) => startNginx('nginx-one-bridge.conf', site, [bridgePort(site), ...changes]),
}

async function startNginx(example: string, site: Site, changes: Change[]): Promise<Program> {
  const { folder, certificates, port } = site
  const own: Change[] = [
    ['listen 443', `listen 127.0.0.1:${port}`],
    ['/etc/nginx/sync.example.org.pem', certificates.certificatePath],
    ['/etc/nginx/sync.example.org.key', certificates.keyPath],
  ]
  const siteFile = folder.file(`site-${port}.conf`)
  writeFileSync(siteFile, adapted(example, [...own, ...changes]))
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${folder.file(kind)};`)
    .join(' ')
  const file = folder.file(`nginx-${port}.conf`)
  // Like Debian's own, which compresses, with the worker_connections of the page.
  writeFileSync(
    file,
    `daemon off; ${userDirective}pid ${folder.file(`nginx-${port}.pid`)}; error_log stderr notice;
events { worker_connections 8192; }
http { access_log off; gzip on; gzip_types application/json; ${paths} include ${siteFile}; }
`,
  )
  const command = ['nginx', '-p', folder.path, '-e', 'stderr', '-c', file] as const
  const checked = await runProgram([...command, '-t'])
  if (/\[(warn|emerg)\]/.test(checked)) throw new Error(checked)
  return startProgram([...command], () => listens(port))
}

/** Its certificate authority, which issues its certificates, is that of the site. */
export const caddy: Balancer = {
  name: 'Caddy',
  bridges: 1,
  async start(site, changes = []) {
    const { folder, certificates, port } = site
    const file = folder.file(`Caddyfile-${port}`)
    const authority = `pki { ca local { root { cert ${certificates.caPath}\nkey ${certificates.caKeyPath}\n} } }`
    const own: Change[] = [
      [
        '\n{\n',
        `\n{\nadmin off\nauto_https disable_redirects\nskip_install_trust\n${authority.replaceAll(/([{}]) /g, '$1\n')}\n`,
      ],
      [
        '\n{$HOST:sync.example.org} {',
        `\nhttps://sync.example.org:${port}, https://127.0.0.1:${port} {\ntls internal\nbind 127.0.0.1`,
      ],
      bridgePort(site),
    ]
    writeFileSync(file, adapted('Caddyfile', [...own, ...changes]))
    const environment = { XDG_DATA_HOME: folder.path, XDG_CONFIG_HOME: folder.path }
    // Caddy listens before it has its certificate. It answers this method itself.
    const isReady = async () => {
      const init = { method: 'PATCH', tls: { ca: certificates.caPem } }
      return (await fetch(`https://127.0.0.1:${port}/`, init)).status === 405
    }
    return startProgram(['caddy', 'run', '--adapter', 'caddyfile', '--config', file], isReady, environment)
  },
}

function bridgePort({ nodes }: Site): Change {
  return ['127.0.0.1:8000', `127.0.0.1:${nodes[0]}`]
}

import { writeFileSync } from 'node:fs'

import { freePort } from '../support/free-port.ts'
import { startProgram, temporaryFolder } from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { createRedisServer, sendCommand, type RedisServer } from '../support/redis-server.ts'

import type { Certificates } from '../support/certificates.ts'

/** The options of a server that listens for TLS on a second port. */
export function tlsArguments(certificates: Certificates, port: number): string[] {
  const { caPath, certificatePath, keyPath } = certificates
  const files = ['--tls-cert-file', certificatePath, '--tls-key-file', keyPath, '--tls-ca-cert-file', caPath]
  return ['--tls-port', String(port), '--tls-auth-clients', 'no', ...files]
}

export type Watched = Awaited<ReturnType<typeof startWatched>>

const password = 'p w'
const login = ':p%20w@'

/**
 * A master called `main`, its replica, and a sentinel that monitors them. Master and replica require the password `p w`, the sentinel
 * another one. With certificates, the sentinel requires none, everything also accepts TLS, and the addresses use it.
 */
export async function startWatched(certificates?: Certificates) {
  const sentinelPassword = certificates ? '' : 'another'
  await using stack = new AsyncDisposableStack()
  const tlsPort = freePort()
  const common = ['--requirepass', password, '--masterauth', password, '--repl-diskless-sync-delay', '0']
  const tls = certificates ? tlsArguments(certificates, tlsPort) : []
  const master = stack.use(createRedisServer({ login, args: [...common, ...tls] }))
  await master.start()
  const masterPort = new URL(master.url).port
  const replica = stack.use(
    createRedisServer({ login, args: [...common, '--replicaof', '127.0.0.1', masterPort] }),
  )
  await replica.start()
  await eventually('the replica follows', async () =>
    String(await replica.command('INFO', 'replication')).includes('master_link_status:up'),
  )

  const folder = stack.use(temporaryFolder())
  const port = freePort()
  const sentinelTlsPort = freePort()
  const settings = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder.path}`,
    `requirepass "${sentinelPassword}"`,
    `sentinel monitor main 127.0.0.1 ${certificates ? tlsPort : masterPort} 1`,
    `sentinel auth-pass main "${password}"`,
    'sentinel down-after-milliseconds main 1500',
    'sentinel failover-timeout main 2000',
    ...(certificates ? sentinelTls(certificates, sentinelTlsPort) : []),
  ]
  writeFileSync(folder.file('sentinel.conf'), `${settings.join('\n')}\n`)
  const sentinelUrl = `redis://:${sentinelPassword}@127.0.0.1:${port}`
  const sentinel = stack.use(
    await startProgram(
      ['redis-server', folder.file('sentinel.conf'), '--sentinel'],
      async () => (await sendCommand(sentinelUrl, 'PING')) === 'PONG',
    ),
  )
  const periods = ['info-period', '100', 'ping-period', '100', 'publish-period', '100']
  await sendCommand(sentinelUrl, 'SENTINEL', 'DEBUG', ...periods)
  const parts = stack.move()
  const scheme = certificates ? 'rediss' : 'redis'
  const hosts = `127.0.0.1:${freePort()},127.0.0.1:${certificates ? sentinelTlsPort : port}`
  const parameters = certificates
    ? `cacert=${encodeURIComponent(certificates.caPem)}`
    : `sentinel_password=${sentinelPassword}`
  return {
    /** The address of a master, with a second sentinel that does not exist. */
    urlOf: (name = 'main') => `${scheme}+sentinel://${login}${hosts}/${name}?${parameters}`,
    master,
    replica,
    signalSentinel: (signal: NodeJS.Signals) => void process.kill(sentinel.pid, signal),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}

function sentinelTls(certificates: Certificates, port: number): string[] {
  const given = tlsArguments(certificates, port)
  const lines = Array.from({ length: given.length / 2 }, (_, line) => given.slice(2 * line, 2 * line + 2))
  return [...lines.map(([name, value]) => `${name!.slice(2)} ${value}`), 'tls-replication yes']
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>

const slotsOf = [
  ['0', '5460'],
  ['5461', '10922'],
  ['10923', '16383'],
] as const

/** Whether a key belongs to the master of that index. */
export async function isInSlotsOf({ nodes }: Cluster, master: 0 | 1 | 2, key: string): Promise<boolean> {
  const [first, last] = slotsOf[master]
  const slot = Number(await nodes[0]!.command('CLUSTER', 'KEYSLOT', key))
  return slot >= Number(first) && slot <= Number(last)
}

/** Three masters with a third of the slots each, and a replica of the first. They talk to each other over TLS. */
export async function startCluster(certificates: Certificates) {
  await using stack = new AsyncDisposableStack()
  const members = Array.from({ length: 4 }, () => {
    const [busPort, tlsPort] = [freePort(), freePort()]
    const options =
      `--cluster-enabled yes --cluster-port ${busPort} --cluster-node-timeout 2000 --cluster-replica-validity-factor 0 ` +
      '--cluster-require-full-coverage no --repl-diskless-sync-delay 0 --tls-cluster yes --tls-replication yes'
    const args = [...options.split(' '), ...tlsArguments(certificates, tlsPort)]
    return { server: stack.use(createRedisServer({ args })), busPort, tlsPort }
  })
  await Promise.all(members.map(({ server }) => server.start()))
  const nodes = members.map(({ server }) => server)
  const portOf = (node: RedisServer) => new URL(node.url).port
  for (const [index, slots] of slotsOf.entries())
    await nodes[index]!.command('CLUSTER', 'ADDSLOTSRANGE', ...slots)
  for (const [index, node] of nodes.entries())
    await node.command('CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1))
  for (const { tlsPort, busPort } of members.slice(1)) {
    await nodes[0]!.command('CLUSTER', 'MEET', '127.0.0.1', String(tlsPort), String(busPort))
  }
  const firstId = String(await nodes[0]!.command('CLUSTER', 'MYID'))
  await eventually('the replica knows its master', async () => {
    return (await nodes[3]!.command('CLUSTER', 'REPLICATE', firstId)) === 'OK'
  })
  await eventually('the replica follows', async () =>
    String(await nodes[3]!.command('INFO', 'replication')).includes('master_link_status:up'),
  )
  // A replica is not listed before it has received data; this key is in one of its slots.
  await eventually('the first takes writes', async () => (await nodes[0]!.command('SET', 'b', '1')) === 'OK')
  for (const node of nodes) {
    await eventually('the cluster is complete', async () => {
      const info = String(await node.command('CLUSTER', 'INFO'))
      const slots = JSON.stringify(await node.command('CLUSTER', 'SLOTS'))
      return info.includes('cluster_state:ok') && slots.includes(portOf(nodes[3]!))
    })
  }
  const parts = stack.move()
  const hosts = [String(freePort()), ...nodes.slice(0, 2).map(portOf)].map((port) => `127.0.0.1:${port}`)
  return {
    /** Lists a member that does not exist, and the first and the second. */
    url: `redis+cluster://${hosts.join(',')}`,
    tlsPorts: members.map(({ tlsPort }) => tlsPort),
    tlsUrl: `rediss+cluster://127.0.0.1:${members[1]!.tlsPort}`,
    nodes,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}

import { chmodSync, copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { makeCertificates } from '../support/certificates.ts'
import { startFaultProxy, type FaultProxy, type Plan } from '../support/fault-proxy.ts'
import { dieWithParent } from '../support/die-with-parent.ts'
import { childrenOf, temporaryFolder } from '../support/processes.ts'
import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { writableSettings } from '../support/settings.ts'
import { executablePath, iniText, makeFolder, serve, start, type Bridge } from '../support/executable.ts'

import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

type Settings = Record<string, string>

/** A token server and a storage that can fail, and bridges over them. Processes, because the page shows what they print. */
export interface Troubles extends AsyncDisposable {
  sandbox: Sandbox
  tokens: FaultProxy
  storage: FaultProxy
  newUser(): SandboxUser
  /** What a bridge prints and returns while `act` runs, until it logs this event if one is named. */
  seen(settings: Settings, act: (bridge: Bridge) => Promise<unknown>, event?: string): Promise<string>
  /** The same while a user reads a collection, or this path. */
  seenByReader(settings?: Settings, path?: string, init?: RequestInit): Promise<string>
  /** The output of a command with these settings, and its exit code. */
  run(args: string[], settings?: Settings, asOrdinaryUser?: boolean): Promise<string>
}

/** Bridges time out soon, and three collections are writable. */
export async function startTroubles(): Promise<Troubles> {
  const sandbox = await startSandbox()
  const tokens = await startFaultProxy({ target: sandbox.tokenServerUrl })
  const storage = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = storage.url
  const timeouts = { upstream_timeout_seconds: '4', request_timeout_seconds: '8' }
  const usual = {
    token_server_url: tokens.url,
    ...timeouts,
    ...writableSettings(['tabs', 'forms']),
  }
  let users = 0
  const newUser = () => sandbox.addUser(`user ${(users += 1)}`)
  const seen: Troubles['seen'] = async (settings, act, event) => {
    const bridge = await serve({ ...usual, ...settings })
    const answers = await act(bridge)
    if (event) await bridge.line(new RegExp(`"event":"${event}"`))
    return [answers, await endOf(bridge)].flat().join('\n')
  }
  return {
    sandbox,
    tokens,
    storage,
    newUser,
    seen,
    seenByReader: (settings = {}, path, init) =>
      seen(settings, (bridge) => {
        const user = newUser()
        return ask(bridge, path ?? records(user), path ? null : user, init)
      }),
    async run(args, settings = {}, asOrdinaryUser = false) {
      const cwd = makeFolder({ 'bridge.ini': iniText({ token_server_url: tokens.url, ...settings }) })
      if (asOrdinaryUser) chmodSync(join(cwd, 'bridge.ini'), 0o000)
      const command = start([...args, '--config', 'bridge.ini'], { cwd, asOrdinaryUser })
      const code = await command.exited
      return `${command.lines.join('\n')}${command.errors()}exit code ${code}`
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([sandbox.stop(), tokens.stop(), storage.stop()])
    },
  }
}

/** Stops a bridge like an operator, so that all output arrives, and returns it. */
async function endOf(bridge: Bridge): Promise<string> {
  await bridge.stop()
  return [...bridge.lines, bridge.errors()].join('\n')
}

export const records = (user: SandboxUser) => `/v1/buckets/${user.clientState}/collections/tabs/records`

export const put = (payload = 'x') => ({ method: 'PUT', body: JSON.stringify({ data: { payload } }) })

/** A response as an operator sees it: status, errno, Next-Page and body. */
export async function ask(
  bridge: Bridge,
  path: string,
  user: SandboxUser | null,
  init: RequestInit = {},
): Promise<string> {
  const answer = await fetch(bridge.url + path, {
    ...init,
    headers: {
      ...(user && { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }),
      'Content-Type': 'application/json',
      ...(init.headers as Record<string, string>),
    },
  })
  const text = await answer.text().catch(String)
  const errno = /"errno":(\d+)/.exec(text)?.[1]
  return `${answer.status}, errno ${errno}, Next-Page: ${answer.headers.get('Next-Page')}, ${text}`
}

/** One sub-request of a batch. */
export const write = (collection: string, id = 'old', method = 'PUT') => ({
  method,
  path: `/buckets/BUCKET/collections/${collection}/records/${id}`,
  body: { data: { payload: 'after' } },
})

/** The result of a batch whose storage calls follow this plan; "old" is in both collections. */
export async function seenOfBatch(requests: object[], plan: Plan, event: string): Promise<string> {
  await using own = await startTroubles()
  const user = own.newUser()
  for (const name of ['tabs', 'forms']) own.sandbox.write(user, name, [{ id: 'old', payload: 'before' }])
  const act = async (bridge: Bridge) => {
    await ask(bridge, records(user), user)
    own.storage.plan(plan)
    const body = JSON.stringify({ requests }).replaceAll('BUCKET', user.clientState)
    return ask(bridge, '/v1/batch', user, { method: 'POST', body })
  }
  return await own.seen({}, act, event)
}

/** The output of `check` for a token server whose certificate is from an unknown authority and for this name. */
export async function checkTls({ run }: Troubles, name: string, isTrusted: boolean): Promise<string> {
  using folder = temporaryFolder()
  const { caPath, certificatePath, keyPath } = await makeCertificates(folder.path, name)
  const tls = { cert: readFileSync(certificatePath, 'utf8'), key: readFileSync(keyPath, 'utf8') }
  await using server = Bun.serve({ hostname: '127.0.0.1', port: 0, tls, fetch: () => new Response() })
  return await run(['check'], {
    token_server_url: `https://127.0.0.1:${server.port}`,
    ...(isTrusted && { certificate_ca_bundle: caPath }),
  })
}

/** The log of a service at this signal, when its settings have changed or its executable is invalid. */
export async function seenAfterChange(event: string, change: Settings | 'executable'): Promise<string> {
  const cwd = makeFolder()
  const executable = join(cwd, 'sync-bridge')
  copyFileSync(executablePath, executable)
  const settings = { token_server_url: 'http://127.0.0.1:1' }
  const bridge = await serve(settings, { cwd, executable })
  if (change === 'executable') {
    writeFileSync(`${executable}.new`, '#!/bin/sh\nexit 3\n', { mode: 0o755 })
    renameSync(`${executable}.new`, executable)
  } else writeFileSync(join(cwd, 'bridge.ini'), iniText({ ...settings, ...change }))
  bridge.signal('SIGHUP')
  await bridge.line(new RegExp(`"event":"${event}"`))
  return endOf(bridge)
}

/** The result of sending this signal to one of two workers. */
export function seenOfWorker({ seen }: Troubles, signal: NodeJS.Signals, event: string): Promise<string> {
  const strike = async ({ pid, line }: Bridge) => {
    const [worker] = childrenOf(pid)
    process.kill(worker!, signal)
    await line(new RegExp(`"event":"${event}"`))
    // A hanging worker would outlive its bridge if that ended between logging and killing it.
    if (signal === 'SIGSTOP') await Bun.$`kill -KILL ${worker}`.nothrow().quiet()
  }
  return seen({ workers: '2', worker_timeout_seconds: '1' }, strike)
}

/** What a reader gets after more log lines than the queue holds. */
export async function seenBySlowReader(): Promise<string> {
  const settings = { token_server_url: 'http://127.0.0.1:1', logging_level: 'debug' }
  const cwd = makeFolder({ 'bridge.ini': iniText(settings) })
  const reader = 'read -r first; echo "$first"; while [ ! -e enough ]; do sleep 0.1; done; exec cat'
  const command = `exec "${executablePath}" serve --config bridge.ini > >(${reader})`
  const child = Bun.spawn([...dieWithParent('KILL'), 'bash', '-c', command], { cwd, stdout: 'pipe' })
  const pieces = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let text = (await pieces.read()).value!
  const url = /"url":"([^"]+)"/.exec(text)![1]!
  const headers = { 'User-Agent': 'x'.repeat(250) }
  for (let round = 0; round < 40; round += 1)
    await Promise.all(Array.from({ length: 100 }, () => fetch(`${url}/v1/`, { headers })))
  writeFileSync(join(cwd, 'enough'), '')
  while (!text.includes('log lines dropped')) text += (await pieces.read()).value!
  child.kill()
  await child.exited
  return text
}

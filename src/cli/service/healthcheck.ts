import { quoteText } from '../../observability/log.ts'
import { describeCommand, UsageError, type CommandFactory } from '../command.ts'
import type { Host } from '../host.ts'

export const healthcheckCommand: CommandFactory = (perform) =>
  describeCommand(
    'healthcheck',
    'check that a running service responds',
    'Exits 0 if the service returns 200 within five seconds, otherwise 1.',
  )
    .requiredOption('--url <URL>', 'URL of the service, such as http://127.0.0.1:8000')
    .option('--deep', 'check the token server and the cache, too')
    .action(perform((host, { url, deep = false }) => healthcheck(url, deep, host)))

/**
 * Checks that a running service responds, or with `isDeep` that its upstream services do: 0 if it returns 200 in time, else 1 with the
 * reason on stderr. `address`: the URL of the service, with or without the path.
 */
export async function healthcheck(
  address: string,
  isDeep: boolean,
  { stderr }: Pick<Host, 'stderr'>,
  timeoutMs = 5000,
): Promise<number> {
  const url = /^https?:\/\/[^\s/]/i.test(address) ? URL.parse(address) : null
  if (!url) throw new UsageError(`--url ${quoteText(address, 80)} is not an http(s) URL`)
  if (!/__(lb)?heartbeat__\/?$/.test(url.pathname)) {
    const name = isDeep ? '__heartbeat__' : '__lbheartbeat__'
    url.pathname = `${url.pathname.replace(/\/{1,16}$/, '')}/${name}`
  }
  const signal = AbortSignal.timeout(timeoutMs)
  const failure = await fetch(url, { redirect: 'manual', keepalive: false, signal }).then(
    ({ status }) => (status === 200 ? null : `answered ${status}`),
    ({ name, code }: { name?: string; code?: unknown }) => {
      if (name === 'TimeoutError') return `no response within ${timeoutMs / 1000} s`
      return typeof code === 'string' ? code : 'no connection'
    },
  )
  if (failure !== null) stderr.write(`unhealthy: ${url.host}: ${failure}\n`)
  return failure === null ? 0 : 1
}

import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'

import { quoteText } from '../observability/escape.ts'

import type { Host } from './host.ts'

const deadlineMs = 5000

/**
 * Asks a running service whether it is well: 0 if `__heartbeat__` answers 200 within five seconds, otherwise 1 and
 * the reason on stderr. `address` is where the service is, with or without the path of the heartbeat.
 */
export async function healthcheck(address: string, host: Host, timeoutMs = deadlineMs): Promise<number> {
  const url = heartbeatUrl(address)
  if (!url) {
    host.stderr.write(`sync-bridge: --url ${quoteText(address, 80)} is not an http(s) URL\n`)
    return 2
  }
  const failure = await ask(url, timeoutMs)
  if (failure === null) return 0
  host.stderr.write(`unhealthy: ${url.host}: ${failure}\n`)
  return 1
}

function heartbeatUrl(address: string): URL | null {
  if (!/^https?:\/\/[^\s/]/i.test(address) || !URL.canParse(address)) return null
  const url = new URL(address)
  if (!/__(lb)?heartbeat__\/?$/.test(url.pathname)) {
    url.pathname = `${url.pathname.replace(/\/+$/, '')}/__heartbeat__`
  }
  return url
}

/** Null when the answer is 200, otherwise what went wrong. */
function ask(url: URL, timeoutMs: number): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  const request = url.protocol === 'https:' ? requestHttps : requestHttp
  const asked = request(url, { agent: false, headers: { connection: 'close' } }, (answer) => {
    resolve(answer.statusCode === 200 ? null : `answered ${answer.statusCode}`)
    finish()
  })
  const timer = setTimeout(() => {
    resolve(`no answer in ${timeoutMs / 1000} s`)
    finish()
  }, timeoutMs)
  asked.on('error', (error) => {
    resolve('code' in error && typeof error.code === 'string' ? error.code : 'no connection')
    finish()
  })
  asked.end()

  function finish(): void {
    clearTimeout(timer)
    asked.destroy()
  }
  return promise
}

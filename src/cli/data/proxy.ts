import type { Host } from '../host.ts'

const thisMachine = 'localhost,127.0.0.1,::1'

/**
 * Uses the proxy of `HTTPS_PROXY` for https addresses, but for those in `NO_PROXY` and this machine. Returns a sentence for requests that
 * fail; empty if no proxy is configured. The variables for other addresses are not used: the runtime would send the token for the bridge
 * inside this process through them.
 */
export function useProxy({ environment, proxies = {} }: Host): string {
  const valueOf = (name: string) => proxies[name.toLowerCase()] || proxies[name]
  const proxy = valueOf('HTTPS_PROXY')
  if (proxy) {
    environment.HTTPS_PROXY = proxy
    environment.NO_PROXY = [valueOf('NO_PROXY'), thisMachine].filter(Boolean).join(',')
    // Its address may contain a password.
    return `https requests go through the proxy ${proxy.replace(/^.*@|^\w+:\/\//, '')}, because HTTPS_PROXY is set. If it opens TLS connections, trust its certificate with --ca FILE`
  }
  const unused = ['HTTP_PROXY', 'ALL_PROXY'].find(valueOf)
  return unused === undefined ? '' : `${unused} is not used: if you need a proxy, set HTTPS_PROXY`
}

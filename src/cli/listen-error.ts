/** An address to listen on, and the setting that it comes from. */
export interface ListeningAddress {
  hostname: string
  port: number
  /** The settings to change. */
  setting: string
}

/** Why an address can't be listened on, with the remedy; null for an error that is not about the address. */
export async function describeAddressError(
  error: unknown,
  address: ListeningAddress,
): Promise<string | null> {
  const { code, message } = error as { code?: unknown; message?: unknown }
  const isAboutAddress = typeof code === 'string' || String(message).startsWith('Failed to listen')
  if (!isAboutAddress) return null
  const { hostname, port, setting } = address
  // For an unknown host name the runtime repeats whatever error came before.
  if (!(await isKnown(hostname))) return `the host is unknown: change ${setting}`
  switch (code) {
    case 'EADDRINUSE':
      return `the port is in use: change ${setting}, or stop the program that uses it`
    case 'EADDRNOTAVAIL':
      return `the address is not one of this machine: change ${setting}`
    case 'EINVAL':
      return `that is no address to listen on: change ${setting}`
    case 'EACCES':
    case 'EPERM':
      return port > 0 && port < 1024
        ? `ports below 1024 are for root: change ${setting}, or set the sysctl net.ipv4.ip_unprivileged_port_start=${port}`
        : 'the operating system does not allow it'
    default:
      return null
  }
}

async function isKnown(hostname: string): Promise<boolean> {
  const { isIP } = await import('node:net')
  if (isIP(hostname) !== 0) return true
  return Bun.dns.lookup(hostname).then(
    (addresses) => addresses.length > 0,
    () => false,
  )
}

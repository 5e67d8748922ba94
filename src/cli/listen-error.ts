/**
 * What is wrong with an address that can't be listened on, with the remedy; null when the error says something else.
 * `setting` is where the address comes from.
 */
export function describeAddressError(error: unknown, port: number, setting: string): string | null {
  switch ((error as { code?: unknown } | null)?.code) {
    case 'EADDRINUSE':
      return `the port is in use: change ${setting}, or stop who uses it`
    case 'EADDRNOTAVAIL':
      return `the address is not one of this machine: change ${setting}`
    case 'EINVAL':
      return `the host is unknown, or no address to listen on: change ${setting}`
    case 'EACCES':
    case 'EPERM':
      return port > 0 && port < 1024
        ? `ports below 1024 are for root: change ${setting}, or give the unit AmbientCapabilities=CAP_NET_BIND_SERVICE`
        : 'the operating system does not allow it'
    default:
      return null
  }
}

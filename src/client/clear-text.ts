/** Whether others on the way can read requests to this address: plain HTTP to another machine. */
export function isClearText(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return protocol !== 'https:' && !/^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

import { openCLibrary } from './c-library.ts'

import type { Host } from './host.ts'

/** What the service manager is told; see sd_notify(3). */
export interface Notifier {
  ready(): void
  reloading(): void
  stopping(): void
  /** Ends the signs of life. */
  close(): void
}

/**
 * Tells the service manager how this service is, if one asked for it in NOTIFY_SOCKET, and gives the signs of life that
 * WATCHDOG_USEC asks for. `onFailure` is told why that is impossible, and nothing else follows from it.
 */
export async function createNotifier(host: Host, onFailure: (reason: string) => void): Promise<Notifier> {
  const { NOTIFY_SOCKET: address, WATCHDOG_USEC: watchdogMicroseconds } = host.environment
  const send = address ? await openSender(address, onFailure) : null
  if (!send) return { ready() {}, reloading() {}, stopping() {}, close() {} }
  const intervalMs = Number(watchdogMicroseconds) / 1000 / 2
  const watchdog = intervalMs >= 1 ? setInterval(() => send('WATCHDOG=1'), intervalMs) : null
  watchdog?.unref()
  return {
    ready: () => send('READY=1'),
    reloading: () => send('RELOADING=1'),
    stopping: () => send('STOPPING=1'),
    close: () => void (watchdog && clearInterval(watchdog)),
  }
}

const unixFamily = 1
const datagramCloseOnExec = 0o2000002
const dontWaitNoSignal = 0x4040
const longestPath = 107

async function openSender(
  address: string,
  onFailure: (reason: string) => void,
): Promise<((text: string) => void) | null> {
  const target = socketAddress(address)
  // The runtime itself has no datagrams over unix sockets.
  const library =
    target &&
    (await openCLibrary({
      socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
      sendto: { args: ['i32', 'ptr', 'usize', 'i32', 'ptr', 'u32'], returns: 'i64' },
    }))
  const socket = library ? library.socket(unixFamily, datagramCloseOnExec, 0) : -1
  if (!target || !library || socket < 0) {
    onFailure(target ? 'no socket can be made' : 'NOTIFY_SOCKET is no address')
    return null
  }
  return (text) => {
    const bytes = Buffer.from(text)
    const sent = library.sendto(socket, bytes, bytes.length, dontWaitNoSignal, target, target.length)
    if (Number(sent) < 0) onFailure('the service manager does not take messages')
  }
}

/** `struct sockaddr_un`: the family and a path, or after a zero byte a name in the abstract namespace. */
function socketAddress(address: string): Uint8Array | null {
  const path = Buffer.from(address.replace(/^@/, '\0'))
  if (!/^[/@]/.test(address) || path.length > longestPath) return null
  const family = new Uint8Array(new Uint16Array([unixFamily]).buffer)
  return new Uint8Array(Buffer.concat([family, path]))
}

import { dlopen } from 'bun:ffi'

export type Notifier = ReturnType<typeof createNotifier>

/**
 * Reports the state of the service to the service manager, if NOTIFY_SOCKET names one, and sends the keep-alives
 * that WATCHDOG_USEC asks for while `isResponsive` holds; see sd_notify(3). Where that is impossible, `onFailure` gets the reason,
 * and nothing else changes.
 */
export function createNotifier(
  { NOTIFY_SOCKET: address, WATCHDOG_USEC: watchdogMicroseconds }: Record<string, string | undefined>,
  isResponsive: () => boolean,
  onFailure: (reason: string) => void,
) {
  const open = address ? openSender(address, onFailure) : null
  // The service manager does not listen to this process once another one is the main process.
  let isMain = true
  const send = (text: string) => void (isMain && open?.(text))
  const intervalMs = Number(watchdogMicroseconds) / 1000 / 2
  const keepAlive = () => void (isResponsive() && send('WATCHDOG=1'))
  if (open && intervalMs >= 1) setInterval(keepAlive, intervalMs).unref()
  return {
    ready: () => send('READY=1'),
    reloading: () => send('RELOADING=1'),
    stopping: () => send('STOPPING=1'),
    /** Makes another process the main one. It must be one of the unit's, and ready. */
    handOver(pid: number) {
      // Processes that replace one another fast may all end before their first keep-alive, so this one sends it for its
      // successor.
      send(`MAINPID=${pid}\nREADY=1\nWATCHDOG=1`)
      isMain = false
    },
  }
}

const unixFamily = 1
const datagramCloseOnExec = 0o2000002
const dontWaitNoSignal = 0x4040
const longestPath = 107

function openSender(address: string, onFailure: (reason: string) => void) {
  // `struct sockaddr_un`: the family, its low byte first, and a path, or after a zero byte a name in the abstract namespace.
  const path = Buffer.from(address.replace(/^@/, '\0'))
  const isAddress = /^[/@]/.test(address) && path.length <= longestPath
  const target = isAddress ? Buffer.concat([Buffer.of(unixFamily, 0), path]) : null
  const library = target && openCLibrary()
  const socket = library ? library.socket(unixFamily, datagramCloseOnExec, 0) : -1
  if (!target || !library || socket < 0) {
    onFailure(target ? 'no socket can be made' : 'NOTIFY_SOCKET is no address')
    return null
  }
  return (text: string) => {
    const bytes = Buffer.from(text)
    const sent = library.sendto(socket, bytes, bytes.length, dontWaitNoSignal, target, target.length)
    if (Number(sent) < 0) onFailure('the service manager does not take messages')
  }
}

// The runtime itself can't send datagrams over unix sockets. The names are those of glibc and musl.
function openCLibrary() {
  for (const name of ['libc.so.6', 'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1', 'libc.so']) {
    try {
      return dlopen(name, {
        socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
        sendto: { args: ['i32', 'ptr', 'usize', 'i32', 'ptr', 'u32'], returns: 'i64' },
      }).symbols
    } catch {
      // The other name may exist.
    }
  }
  return null
}

/**
 * Why connections can be reset when one process takes over the port from another; null if they can't. Closing a listening
 * socket resets the connections that wait in its queue, unless the kernel may move them to another socket of the port.
 */
export function takeoverRisk(readFile: (path: string) => string): string | null {
  const name = 'net.ipv4.tcp_migrate_req'
  try {
    return readFile(`/proc/sys/${name.replaceAll('.', '/')}`).trim() === '1' ? null : `${name} is off`
  } catch {
    return `${name} can not be read`
  }
}

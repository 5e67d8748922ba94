import { dlopen } from 'bun:ffi'

export type Notifier = ReturnType<typeof createNotifier>

/**
 * Notifies the service manager of the service's state if NOTIFY_SOCKET is set, and sends the watchdog messages that WATCHDOG_USEC requires;
 * see sd_notify(3). If that fails, `onFailure` gets the reason.
 */
export function createNotifier(
  { NOTIFY_SOCKET: address, WATCHDOG_USEC: watchdogMicroseconds }: Record<string, string | undefined>,
  onFailure: (reason: string) => void,
) {
  const open = address ? openSender(address, onFailure) : null
  const send = (text: string) => void open?.(text)
  const intervalMs = Number(watchdogMicroseconds) / 1000 / 2
  if (open && intervalMs >= 1) setInterval(() => send('WATCHDOG=1'), intervalMs).unref()
  return {
    ready: () => send('READY=1'),
    reloading: () => send('RELOADING=1'),
    stopping: () => send('STOPPING=1'),
  }
}

const unixFamily = 1
const datagramCloseOnExec = 0o2000002
const dontWaitNoSignal = 0x4040

function openSender(address: string, onFailure: (reason: string) => void) {
  // `struct sockaddr_un`: the family in little-endian, and a path, or a zero byte and a name in the abstract namespace.
  const target = Buffer.concat([Buffer.of(unixFamily, 0), Buffer.from(address.replace(/^@/, '\0'))])
  const library = openCLibrary()
  const socket = library ? library.socket(unixFamily, datagramCloseOnExec, 0) : -1
  if (!library || socket < 0) {
    onFailure('cannot create a socket')
    return null
  }
  return (text: string) => {
    const bytes = Buffer.from(text)
    const sent = library.sendto(socket, bytes, bytes.length, dontWaitNoSignal, target, target.length)
    if (Number(sent) < 0) onFailure('the service manager does not accept messages')
  }
}

// The runtime can't send datagrams over Unix sockets. The names are those of glibc and musl.
function openCLibrary() {
  for (const name of ['libc.so.6', 'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1', 'libc.so']) {
    try {
      return dlopen(name, {
        socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
        sendto: { args: ['i32', 'ptr', 'usize', 'i32', 'ptr', 'u32'], returns: 'i64' },
      }).symbols
    } catch {
      // Another name may exist.
    }
  }
  return null
}

/**
 * Why a stop can reset connections although another instance shares the port; null if it can't. Closing a socket resets the connections in
 * its queue, unless the kernel may move them to another socket of the port.
 */
export function resetRisk(readFile: (path: string) => string): string | null {
  const name = 'net.ipv4.tcp_migrate_req'
  try {
    return readFile(`/proc/sys/${name.replaceAll('.', '/')}`).trim() === '1' ? null : `${name} is off`
  } catch {
    return `cannot read ${name}`
  }
}

import { dlopen } from 'bun:ffi'

/** The receiving end of sd_notify(3), in the abstract namespace or at a path. */
interface NotifySocket {
  /** The messages received, in order. */
  messages: string[]
  close(): void
}

const { symbols: libc } = dlopen('libc.so.6', {
  socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
  bind: { args: ['i32', 'ptr', 'u32'], returns: 'i32' },
  recv: { args: ['i32', 'ptr', 'usize', 'i32'], returns: 'i64' },
  close: { args: ['i32'], returns: 'i32' },
})
const dontWait = 0x40

export function listenForNotifications(address: string): NotifySocket {
  const socket = libc.socket(1, 2, 0)
  const name = new Uint8Array([1, 0, ...Buffer.from(address.replace(/^@/, '\0'))])
  if (libc.bind(socket, name, name.length) !== 0) throw new Error(`Cannot bind "${address}"`)
  const messages: string[] = []
  const buffer = new Uint8Array(4096)
  const timer = setInterval(() => {
    for (;;) {
      const length = Number(libc.recv(socket, buffer, buffer.length, dontWait))
      if (length <= 0) return
      messages.push(new TextDecoder().decode(buffer.subarray(0, length)))
    }
  }, 2)
  return {
    messages,
    close() {
      clearInterval(timer)
      libc.close(socket)
    },
  }
}

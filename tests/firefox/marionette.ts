import { connect, type Socket } from 'node:net'

/** The remote control of a Firefox: scripts that run with all its privileges, in sequence. */
export interface Marionette {
  /** Sends a command of the protocol WebDriver. */
  send<T>(command: string, parameters: object): Promise<T>
  /** Runs the body of an async function with `args`, and resolves to its result. */
  run<T>(body: string, ...args: unknown[]): Promise<T>
  close(): void
}

const scriptTimeoutMs = 110_000

interface Waiting {
  resolve: (value: unknown) => void
  reject: (error: Error) => void
}

/** Opens a session on the port where Marionette listens. */
export async function openMarionette(port: number): Promise<Marionette> {
  const waiting = new Map<number, Waiting>()
  const greeted = Promise.withResolvers<void>()
  const fail = (error: Error) => {
    greeted.reject(error)
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }
  const socket = connect(port, '127.0.0.1')
  socket.on('error', fail)
  socket.on('close', () => fail(new Error('Firefox closed the connection')))
  readMessages(socket, (message) => {
    if (!Array.isArray(message)) return greeted.resolve()
    const [, id, error, result] = message as [number, number, { message: string } | null, unknown]
    const { resolve, reject } = waiting.get(id)!
    waiting.delete(id)
    if (error) reject(new Error(`Firefox: ${error.message}`))
    else resolve(result)
  })
  await greeted.promise

  let lastId = 0
  function send<T>(command: string, parameters: object): Promise<T> {
    const id = ++lastId
    const text = Buffer.from(JSON.stringify([0, id, command, parameters]))
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve: resolve as Waiting['resolve'], reject })
      socket.write(Buffer.concat([Buffer.from(`${text.length}:`), text]))
    })
  }

  await send('WebDriver:NewSession', {})
  await send('WebDriver:SetTimeouts', { script: scriptTimeoutMs })
  await send('Marionette:SetContext', { value: 'chrome' })
  return {
    send,
    async run<T>(body: string, ...args: unknown[]) {
      const script = `return (async (...args) => {${body}\n})(...arguments)`
      const result = await send<{ value: T }>('WebDriver:ExecuteScript', { script, args })
      return result.value
    },
    close: () => socket.destroy(),
  }
}

// Each message is its length in bytes, a colon, and JSON.
function readMessages(socket: Socket, take: (message: unknown) => void): void {
  let received = Buffer.alloc(0)
  socket.on('data', (data) => {
    received = Buffer.concat([received, data as Buffer])
    for (;;) {
      const colon = received.indexOf(':')
      if (colon < 0) return
      const end = colon + 1 + Number(received.subarray(0, colon).toString())
      if (received.length < end) return
      const message: unknown = JSON.parse(received.subarray(colon + 1, end).toString())
      received = received.subarray(end)
      take(message)
    }
  })
}

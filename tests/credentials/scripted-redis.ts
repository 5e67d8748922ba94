import type { Socket } from 'bun'

/** A server that speaks just enough of Redis to be slow or silent on purpose. */
interface ScriptedRedis {
  readonly url: string
  /** How long it takes to answer a command other than the greeting; infinite for never. */
  delayMs: number
  /** The names of the commands that came, greetings left out. */
  readonly commands: string[]
  readonly openConnections: number
  readonly acceptedConnections: number
  [Symbol.dispose](): void
}

const greeting = '%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n'
const replies: Record<string, string> = { GET: '_\r\n', SET: '+OK\r\n', DEL: ':0\r\n', PING: '+PONG\r\n' }

export function startScriptedRedis(): ScriptedRedis {
  const commands: string[] = []
  const connections = new Set<Socket>()
  let acceptedConnections = 0
  const lastAnswerAtMs = new WeakMap<Socket, number>()
  const listener = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open(socket) {
        connections.add(socket)
        acceptedConnections += 1
      },
      close: (socket) => void connections.delete(socket),
      data(socket, bytes) {
        // Every argument comes as "$<length>\r\n<text>\r\n", and the names are the only ones of these words.
        for (const [, command] of bytes
          .toString('latin1')
          .matchAll(/\r\n(HELLO|GET|SET|DEL|PING)(?=\r\n)/g)) {
          if (command === 'HELLO') socket.write(greeting)
          else answer(socket, command!)
        }
      },
    },
  })

  function answer(socket: Socket, command: string): void {
    commands.push(command)
    if (!Number.isFinite(server.delayMs)) return
    // Answers keep the order of the commands, also when a later one would be faster.
    const nowMs = performance.now()
    const atMs = Math.max(lastAnswerAtMs.get(socket) ?? 0, nowMs + server.delayMs)
    lastAnswerAtMs.set(socket, atMs)
    setTimeout(() => socket.write(replies[command]!), atMs - nowMs)
  }

  const server: ScriptedRedis = {
    url: `redis://127.0.0.1:${listener.port}`,
    delayMs: 0,
    commands,
    get openConnections() {
      return connections.size
    },
    get acceptedConnections() {
      return acceptedConnections
    },
    [Symbol.dispose]: () => listener.stop(true),
  }
  return server
}

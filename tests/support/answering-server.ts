/** A server that gives each request this answer, and notes the paths. A server, because its clients only have an address. */
export function startAnswering(answer: (request: Request) => Response | Promise<Response>) {
  const asked: string[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      asked.push(new URL(request.url).pathname)
      return answer(request)
    },
  })
  return { url: server.url, asked, [Symbol.dispose]: () => void server.stop(true) }
}

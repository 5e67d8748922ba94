/** Pass-through as a stream that passes through JavaScript unchanged: the best that rewriting can reach. */
const behind = process.env.UPSTREAM ?? ''

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(process.env.PORT),
  development: false,
  idleTimeout: 240,
  async fetch({ url, headers }) {
    const response = await fetch(behind + url.slice(url.indexOf('/', 8)), {
      headers: { Authorization: headers.get('authorization') ?? '' },
      redirect: 'manual',
      decompress: false,
    })
    const reader = response.body!.getReader()
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const { value } = await reader.read()
          if (value) controller.enqueue(value)
          else controller.close()
        },
        cancel: () => reader.cancel(),
      },
      { highWaterMark: 0 },
    )
    return new Response(body, { status: response.status, headers: response.headers })
  },
})

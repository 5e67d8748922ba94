/** A server that does nothing, to compare starts and idle memory with. */
Bun.serve({
  hostname: '127.0.0.1',
  port: Number(process.env.PORT),
  development: false,
  fetch: () => new Response('ok'),
})

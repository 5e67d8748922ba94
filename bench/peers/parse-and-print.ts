/** The naive way: buffers the storage's response, parses the records, and serializes them. */
const storage = process.env.UPSTREAM ?? ''

interface Bso {
  id: string
  modified: number
  payload: string
  sortindex?: number
}

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(process.env.PORT),
  development: false,
  idleTimeout: 240,
  async fetch({ url, headers }) {
    const response = await fetch(storage + url.slice(url.indexOf('/', 8)), {
      headers: { Authorization: headers.get('authorization') ?? '' },
    })
    const seconds = Number(response.headers.get('x-last-modified'))
    const isList = response.headers.get('content-type') === 'application/newlines'
    const data = isList
      ? (await response.text())
          .trim()
          .split('\n')
          .map((line) => toRecord(JSON.parse(line)))
      : toRecord((await response.json()) as Bso)
    return Response.json(
      { data },
      {
        headers: {
          ETag: `"${seconds * 1000}"`,
          'Last-Modified': new Date(seconds * 1000).toUTCString(),
          'Cache-Control': 'no-cache',
        },
      },
    )
  },
})

function toRecord({ id, modified, payload, sortindex }: Bso) {
  return { id, last_modified: Math.round(modified * 1000), payload, sortindex }
}

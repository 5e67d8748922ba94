import { readdirSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'bun:test'
import { connect, signed, type SyncClient } from './sync-client.ts'
import { converse, readConversations, type Question, type Told } from './transcript.ts'

const folder = join(import.meta.dir, 'transcripts')

for (const file of readdirSync(folder)) {
  describe(`sandbox, ${file}`, () => {
    for (const conversation of readConversations(readFileSync(join(folder, file), 'utf8'))) {
      it.each([...conversation.servers])(`${conversation.title} (%s)`, async (mode) => {
        await using sync = await connect({ mode, ...conversation.options })
        sync.later(-10)

        const { told, wanted } = await converse(conversation, (question) => ask(sync, question))

        expect(told).toEqual(wanted)
      })
    }
  })
}

/** A request whose path no library has changed. */
function ask(sync: SyncClient, { pauseMs, method, path, headers, body }: Question): Promise<Told> {
  sync.later(pauseMs)
  const { hostname, port, pathname } = new URL(sync.token.api_endpoint)
  const target = pathname + path
  // The library parses URLs and escapes braces; it leaves URLs given in parts unchanged.
  const [name, query] = target.split('?')
  const search = query === undefined ? '' : `?${query}`
  const signedUrl = { protocol: 'http:', hostname, port, pathname: name, search }
  const [, { headers: signature }] = signed(sync, method, path, { signedUrl })
  const time = sync.stamp()
  return new Promise((resolve, reject) => {
    const sent = request({
      hostname,
      port,
      method,
      path: target,
      headers: { ...headers, ...signature },
    })
    sent.on('error', reject)
    sent.on('response', (response) => {
      const { statusCode: status = 0, headers: seen } = response
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (piece: string) => (text += piece))
      response.on('end', () =>
        resolve({ status, headers: new Headers(seen as Record<string, string>), text, time }),
      )
    })
    sent.end(body)
  })
}

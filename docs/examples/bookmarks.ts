/**
 * Prints a user's bookmarks, decrypted, as a tree.
 *
 *   bun docs/examples/bookmarks.ts
 *
 * with BRIDGE_URL, BUCKET, BEARER_TOKEN, KEY_ID and SYNC_KEY in the environment, as `sync-bridge sandbox` prints them.
 */
import { list } from './bridge.js'
import { collectionKeys, decryptRecord, keyPairFromHex } from './sync-crypto.js'

interface Bookmark {
  id: string
  type: 'bookmark' | 'folder' | 'separator' | 'query' | 'livemark'
  parentid: string
  title?: string
  bmkUri?: string
  children?: string[]
  deleted?: boolean
}

const user = process.env as Record<string, string>
const [keysRecord] = (await list(user, '/collections/crypto/records/keys')).records
const keysOf = await collectionKeys(keyPairFromHex(user.SYNC_KEY), keysRecord)

const { records } = await list(user, '/collections/bookmarks/records')
const bookmarks = new Map<string, Bookmark>()
for (const record of records) {
  const clear = (await decryptRecord(keysOf('bookmarks'), record)) as Bookmark
  // A deletion travels as a record, too.
  if (!clear.deleted) bookmarks.set(clear.id, clear)
}

const roots = ['menu', 'toolbar', 'unfiled', 'mobile']
for (const root of roots) print(root, 0)
console.log(`\n${bookmarks.size} bookmarks and folders`)

function print(id: string, depth: number): void {
  const item = bookmarks.get(id)
  if (!item) return
  const indent = '  '.repeat(depth)
  if (item.type === 'separator') console.log(`${indent}----`)
  else if (item.type === 'folder') console.log(`${indent}${item.title || id}/`)
  else console.log(`${indent}${item.title || '(no title)'}  <${item.bmkUri ?? ''}>`)
  for (const child of item.children ?? []) print(child, depth + 1)
}

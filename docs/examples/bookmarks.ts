/**
 * Prints a user's bookmarks, decrypted, as a tree. Records that the key does not open are counted and named at the end.
 *
 *   bun docs/examples/bookmarks.ts
 *
 * with BRIDGE_URL, BUCKET, BEARER_TOKEN, KEY_ID and SYNC_KEY in the environment or in account.env (see account.ts).
 */
import { readAccount } from './account.ts'
import { list, printable } from './bridge.js'
import { collectionKeys, decryptRecords, keyPairFromHex } from './sync-crypto.js'

interface Bookmark {
  id: string
  type?: string
  title?: string
  bmkUri?: string
  children?: string[]
  deleted?: boolean
}

try {
  await main()
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}

async function main(): Promise<void> {
  const user = readAccount(['SYNC_KEY'])
  const [keysRecord] = (await list(user, '/collections/crypto/records/keys')).records
  const keysOf = await collectionKeys(keyPairFromHex(user.SYNC_KEY!), keysRecord!)
  const { records } = await list(user, '/collections/bookmarks/records')
  const { readable, unreadable } = await decryptRecords(keysOf('bookmarks'), records)
  // A deletion travels as a record, too.
  const bookmarks = new Map(
    (readable as Bookmark[]).filter(({ deleted }) => !deleted).map((each) => [each.id, each]),
  )

  for (const root of ['menu', 'toolbar', 'unfiled', 'mobile']) print(bookmarks, root, 0, new Set())
  console.log(`\n${bookmarks.size} bookmarks and folders`)
  if (unreadable.length > 0) {
    console.log(`${unreadable.length} cannot be read: ${unreadable.map(({ id }) => printable(id)).join(' ')}`)
  }
}

/** `above`: the folders that this is in, because two folders that hold one another would never end. */
function print(bookmarks: Map<string, Bookmark>, id: string, depth: number, above: Set<string>): void {
  const item = bookmarks.get(id)
  if (!item || above.has(id)) return
  const indent = '  '.repeat(depth)
  const title = printable(item.title || '')
  if (item.type === 'separator') console.log(`${indent}----`)
  else if (item.type === 'folder') console.log(`${indent}${title || id}/`)
  else console.log(`${indent}${title || '(no title)'}  <${printable(item.bmkUri ?? '')}>`)
  for (const child of item.children ?? []) print(bookmarks, child, depth + 1, new Set([...above, id]))
}

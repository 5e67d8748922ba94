/**
 * Adds a bookmark to a folder so that every Firefox of the account shows it there.
 *
 *   bun docs/examples/add-bookmark.ts FOLDER TITLE URL
 *
 * FOLDER is the title of a folder, or one of `menu`, `toolbar`, `unfiled` and `mobile`. The account is that of account.ts, SYNC_KEY
 * included; its operator has to allow writes to bookmarks (service.record_bookmarks_put_enabled). The bookmark and its folder, whose
 * list of children decides, are written in one batch.
 */
import { readAccount } from './account.ts'
import { batch, list, printable } from './bridge.js'
import {
  collectionKeys,
  decryptRecords,
  encryptRecord,
  keyPairFromHex,
  type ClearRecord,
} from './sync-crypto.js'

const [wanted, title, url] = process.argv.slice(2)
if (!wanted || !title || !url || process.argv.length > 5) {
  console.error('Usage: bun add-bookmark.ts FOLDER TITLE URL')
  process.exit(2)
}
try {
  checkAddress(url)
  await add(wanted, { title, bmkUri: url })
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}

/** Firefox removes a bookmark at its next sync whose address it cannot read, or which is longer than it keeps. */
function checkAddress(url: string): void {
  if (url.length > 65_536)
    throw new Error(`Cannot add an address of ${url.length} characters: Firefox keeps 65536`)
  if (!URL.canParse(url))
    throw new Error(`Cannot add "${printable(url)}": an address begins with https:// or the like`)
}

async function add(wanted: string, page: { title: string; bmkUri: string }): Promise<void> {
  const user = readAccount(['SYNC_KEY'])
  const [keysRecord] = (await list(user, '/collections/crypto/records/keys')).records
  const keys = (await collectionKeys(keyPairFromHex(user.SYNC_KEY!), keysRecord!))('bookmarks')
  const { records } = await list(user, '/collections/bookmarks/records')
  const folder = findFolder((await decryptRecords(keys, records)).readable, wanted)
  const { last_modified } = records.find(({ id }) => id === folder.id)!

  const id = Buffer.from(crypto.getRandomValues(new Uint8Array(9))).toString('base64url')
  // Firefox wants it no later than the record's own timestamp, which the storage keeps to 10 ms.
  const dateAdded = Date.now() - 1000
  const place = { parentid: folder.id, parentName: folder.title ?? '', dateAdded }
  const bookmark = { id, type: 'bookmark', ...page, ...place, tags: [] }
  const children = [...((folder.children as string[] | undefined) ?? []), id]
  const put = async (clear: ClearRecord, headers: Record<string, string>) => ({
    method: 'PUT' as const,
    path: `/collections/bookmarks/records/${encodeURIComponent(clear.id)}`,
    headers,
    body: { data: { payload: await encryptRecord(keys, clear) } },
  })
  const responses = await batch(user, [
    await put(bookmark, { 'If-None-Match': '*' }),
    await put({ ...folder, children }, { 'If-Match': `"${last_modified}"` }),
  ])
  // Nobody else has this id: if it is there already, the same batch was carried out before it was repeated.
  const isRepeated = responses[0]!.status === 412
  for (const { status, body } of isRepeated ? [] : responses) {
    if (status === 412)
      console.log('Somebody has changed the folder meanwhile: Firefox will put the bookmark at its end')
    else if (status !== 200) throw new Error(`Cannot write: ${status} ${body.message}`)
  }
  console.log(`Added ${id} to ${folder.id}`)
}

/** The folder of that id or title; throws unless there is just one. */
function findFolder(bookmarks: ClearRecord[], wanted: string): ClearRecord {
  const folders = bookmarks.filter(({ type, deleted }) => type === 'folder' && !deleted)
  const byId = folders.filter(({ id }) => id === wanted)
  const found = byId.length > 0 ? byId : folders.filter((folder) => folder.title === wanted)
  if (found.length === 1) return found[0]!
  throw new Error(
    `There ${found.length === 0 ? 'is no folder' : `are ${found.length} folders`} of that title`,
  )
}

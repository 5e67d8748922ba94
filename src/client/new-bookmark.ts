import { bookmarkTree, foldersNamed } from './bookmarks.ts'
import { isReadable, type ReadableRecord } from './collection.ts'
import { ClientError } from './errors.ts'
import { listOf, textOf } from './fields.ts'
import type { ClearRecord } from './crypto.ts'
import type { SyncClient, TransactionRequest } from './sync-client.ts'

/** A bookmark to add. */
export interface NewBookmark {
  url: string
  /** @default the address */
  title?: string
  /** The id or the title of a folder. @default unfiled: "Other Bookmarks" */
  folder?: string
  tags?: string[]
}

/** What has become of a new bookmark. */
export interface AddedBookmark {
  id: string
  folder: string
  /** Whether somebody has changed the folder meanwhile: Firefox puts the bookmark at its end then. */
  isUnlisted: boolean
}

/** What Firefox keeps of an address. */
const longestUrl = 65_536
/** A folder of some hundred entries, which fits into every storage. */
const alwaysFitsBytes = 16_000

/**
 * Adds a bookmark as Firefox makes it: itself and its folder, whose list of children decides, in one transaction. Rejects with
 * `ClientError`: for an address that Firefox would throw away, a folder that is not there or not the only one of its title, and one
 * that is full, when nothing is written.
 */
export async function addBookmark(client: SyncClient, bookmark: NewBookmark): Promise<AddedBookmark> {
  const { url, title = url, folder: wanted = 'unfiled', tags = [] } = bookmark
  checkUrl(url)
  const records: ReadableRecord[] = []
  for await (const record of client.collection('bookmarks').records())
    if (isReadable(record)) records.push(record)
  const { clear: folder, stored } = findFolder(records, wanted)
  const id = newId()
  // Firefox wants it no later than the record's own timestamp, which the storage keeps to 10 ms.
  const dateAdded = Date.now() - 1000
  const place = { parentid: folder.id, parentName: textOf(folder.title), dateAdded }
  const child: ClearRecord = { id, type: 'bookmark', title, bmkUri: url, ...place, tags }
  const changed: ClearRecord = { ...folder, children: [...listOf(folder.children), id] }
  const put = async (clear: ClearRecord, headers: Record<string, string>): Promise<TransactionRequest> => {
    const data = { payload: await client.encrypt('bookmarks', clear) }
    return { method: 'PUT', collection: 'bookmarks', id: clear.id, headers, data }
  }
  const requests = [
    await put(child, { 'If-None-Match': '*' }),
    await put(changed, { 'If-Match': `"${stored.last_modified}"` }),
  ]
  if (requests[1]!.data!.payload!.length > alwaysFitsBytes) await requireRoom(client, requests, folder)
  const [added, listed] = await client.transaction(requests)
  // Nobody else has this id: if it is there already, the same transaction was carried out before it was repeated.
  if (added!.status === 412) return { id, folder: folder.id, isUnlisted: false }
  requireWritten(added!)
  if (listed!.status !== 412) requireWritten(listed!)
  return { id, folder: folder.id, isUnlisted: listed!.status === 412 }
}

/** Throws `ClientError` for an address that Firefox would throw away at its next sync. */
export function checkUrl(url: string): void {
  if (url.length > longestUrl)
    throw new ClientError(`Cannot add an address of ${url.length} characters: Firefox keeps ${longestUrl}`)
  if (!URL.canParse(url))
    throw new ClientError(
      `Cannot add ${JSON.stringify(url)}: an address begins with https:// or the like, and has no blanks in its host`,
    )
}

/**
 * Throws when the folder is too large for the storage. Conditions that are never met ask for that without writing anything; a bridge learns
 * what the storage takes only for both records together.
 */
async function requireRoom(
  client: SyncClient,
  requests: TransactionRequest[],
  folder: ClearRecord,
): Promise<void> {
  const never = { 'If-Match': '"1"' }
  const answers = await client.transaction(requests.map((request) => ({ ...request, headers: never })))
  if (answers[1]!.status !== 413) return
  const count = listOf(folder.children).length
  throw new ClientError(
    `Nothing was written: the folder ${JSON.stringify(folder.title)} is full, with ${count} entries. Choose another one`,
    {
      status: 413,
    },
  )
}

function requireWritten({ status, body }: { status: number; body: { message?: string } }): void {
  if (status === 200) return
  const remedy = status === 405 ? ': its operator has not enabled writes to bookmarks' : ''
  throw new ClientError(`Cannot write the bookmark: ${status} ${body.message ?? ''}${remedy}`, { status })
}

function findFolder(records: ReadableRecord[], wanted: string): ReadableRecord {
  const found = foldersNamed(bookmarkTree(records), wanted)
  if (found.length === 1) return found[0]!.record
  if (found.length === 0) throw new ClientError(`There is no folder ${JSON.stringify(wanted)}`)
  const ids = found.map(({ record, path }) => `${record.stored.id} (in ${path})`).join(', ')
  throw new ClientError(
    `There are ${found.length} folders ${JSON.stringify(wanted)}: name one by its id, ${ids}`,
  )
}

/** As Firefox makes them: 12 characters of base64url. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9))
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
}

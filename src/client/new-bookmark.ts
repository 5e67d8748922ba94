import { addressOf, sharedFields } from './addresses.ts'
import { bookmarkTree, folderNamed } from './bookmarks.ts'
import { isReadable, type ReadableRecord } from './collection.ts'
import { ClientError } from './errors.ts'
import { textOf, textsOf, type Fields } from './fields.ts'
import type { ClearRecord } from './crypto.ts'
import type { SyncClient, TransactionRequest } from './sync-client.ts'

/** A bookmark to add. */
export interface NewBookmark {
  url: string
  /** @default the address */
  title?: string
  /** The id or title of a folder. @default unfiled: "Other Bookmarks" */
  folder?: string
  /** In addition to those of other bookmarks of its address; compared without case, and trimmed. */
  tags?: string[]
}

/** The result of adding a bookmark. */
export interface AddedBookmark {
  id: string
  folder: string
  /** Whether the folder was changed by another client meanwhile, so that Firefox will put the bookmark at its end. */
  isUnlisted: boolean
}

/** Firefox removes bookmarks with a longer URL. */
const longestUrl = 65_536
/** Firefox ignores longer tags. */
const longestTag = 100
/** A folder of a few hundred entries, which fits into every storage. */
const alwaysFitsBytes = 16_000

/**
 * Adds a bookmark like Firefox does: writes it and its folder, which lists it in `children`, in one transaction. Bookmarks of the same address
 * share their tags and their keyword: the new one gets them, and the others get new tags. Rejects with `ClientError`, and writes nothing,
 * if Firefox would remove the URL or ignore a tag, the folder does not exist, its title is ambiguous, or it is full.
 */
export async function addBookmark(client: SyncClient, bookmark: NewBookmark): Promise<AddedBookmark> {
  const { url, title = url.trim(), folder: wanted = 'unfiled' } = bookmark
  checkUrl(url)
  // Firefox does not upload it again in its own form, so other programs would get spaces and capitals of what was typed.
  const address = addressOf({ bmkUri: url })
  const tags = trimmedTags(bookmark.tags ?? [])
  const records: ReadableRecord[] = []
  for await (const record of client.collection('bookmarks').records())
    if (isReadable(record)) records.push(record)
  const parent = folderNamed(bookmarkTree(records), wanted).record
  const folder = parent.clear
  const id = newId()
  // Firefox requires it to be no later than the record's timestamp, which has a resolution of 10 ms.
  const dateAdded = Date.now() - 1000
  const place = { parentid: folder.id, parentName: textOf(folder.title), dateAdded }
  const child: ClearRecord = { id, type: 'bookmark', title, bmkUri: address, ...place, tags }
  const others = records.filter(({ clear }) => addressOf(clear) === address)
  const shared = sharedFields([...others.map(({ clear }) => clear), child])
  const untagged = others.filter(({ clear }) => shared.tags.some((tag) => !textsOf(clear.tags).includes(tag)))
  const put = async (clear: ClearRecord, headers: Record<string, string>): Promise<TransactionRequest> => {
    const data = { payload: await client.encrypt('bookmarks', clear) }
    return { method: 'PUT', collection: 'bookmarks', id: clear.id, headers, data }
  }
  const change = ({ stored, clear }: ReadableRecord, fields: Fields) =>
    put({ ...clear, ...fields }, { 'If-Match': `"${stored.last_modified}"` })
  const requests = await Promise.all([
    put({ ...child, ...shared }, { 'If-None-Match': '*' }),
    change(parent, { children: [...textsOf(folder.children), id] }),
    ...untagged.map((record) => change(record, shared)),
  ])
  if (requests[1]!.data!.payload!.length > alwaysFitsBytes) await requireRoom(client, requests, folder)
  if (untagged.length > 0) await writeFirst(client, requests)
  const [added, ...changed] = await client.transaction(requests)
  // The id is random: if it exists, this transaction was applied before it was repeated.
  if (added!.status === 412) return { id, folder: folder.id, isUnlisted: false }
  requireWritten(added!)
  for (const response of changed) if (response.status !== 412) requireWritten(response)
  return { id, folder: folder.id, isUnlisted: changed[0]!.status === 412 }
}

/** Throws `ClientError` for a URL that Firefox would remove at its next sync. */
export function checkUrl(url: string): void {
  // Firefox encodes letters beyond ASCII, which makes it longer.
  const length = Math.max(url.length, addressOf({ bmkUri: url }).length)
  if (length > longestUrl)
    throw new ClientError(`Cannot add an address of ${length} characters: Firefox keeps ${longestUrl}`)
  if (!URL.canParse(url))
    throw new ClientError(
      `Cannot add ${JSON.stringify(url)}: an address must begin with https:// or similar, without spaces in its host`,
    )
}

/** Trims tags like Firefox does. Throws `ClientError` for one that it would ignore. */
function trimmedTags(tags: string[]): string[] {
  const trimmed = tags.map((tag) => tag.trim())
  const ignored = trimmed.find((tag) => tag === '' || tag.length > longestTag)
  if (ignored === undefined) return trimmed
  throw new ClientError(
    `Cannot add the tag ${JSON.stringify(ignored)}: Firefox ignores blank tags, and those of more than ${longestTag} characters`,
  )
}

/**
 * Throws if the folder is too large for the storage. Tests that with conditions that always fail, so nothing is written; with both records,
 * because a bridge reads the storage's limits only for several.
 */
async function requireRoom(
  client: SyncClient,
  requests: TransactionRequest[],
  folder: ClearRecord,
): Promise<void> {
  const never = { 'If-Match': '"1"' }
  const both = requests.slice(0, 2)
  const answers = await client.transaction(both.map((request) => ({ ...request, headers: never })))
  if (answers[1]!.status !== 413) return
  const count = textsOf(folder.children).length
  throw new ClientError(
    `Nothing was written: the folder ${JSON.stringify(folder.title)} is full, with ${count} entries. Choose another one`,
    {
      status: 413,
    },
  )
}

/** Writes the new tags that don't fit into one transaction with the bookmark. Before it, so that a failure adds nothing. */
async function writeFirst(client: SyncClient, requests: TransactionRequest[]): Promise<void> {
  const { maxRequests } = await client.info()
  while (requests.length > Math.max(2, maxRequests)) {
    const part = requests.splice(2, Math.min(maxRequests, requests.length - maxRequests))
    for (const response of await client.transaction(part))
      if (response.status !== 412) requireWritten(response)
  }
}

function requireWritten({ status, body }: { status: number; body: { message?: string } }): void {
  if (status === 200) return
  const remedy = status === 405 ? ': its operator has not enabled writes to bookmarks' : ''
  throw new ClientError(`Cannot write the bookmark: ${status} ${body.message ?? ''}${remedy}`, { status })
}

/** Creates an id like Firefox: 12 characters of base64url. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9))
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
}

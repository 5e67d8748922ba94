import { SyncClient } from '../../src/client/sync-client.ts'
import { below } from '../../src/client/edit/tree.ts'
import { encryptPayload, keysRecord, toKeyBundle } from '../../src/sandbox/crypto.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Sandbox } from '../support/sandbox.ts'

type Clear = { id: string } & Record<string, unknown>

const folder = (id: string, parentid: string, title: string, children: string[]): Clear => ({
  id,
  type: 'folder',
  parentid,
  title,
  children,
})
const bookmark = (id: string, parentid: string, title: string, bmkUri: string, more = {}): Clear => ({
  id,
  type: 'bookmark',
  parentid,
  title,
  bmkUri,
  ...more,
})
const login = (id: string, username: string, password: string, timeLastUsed: number): Clear => ({
  id,
  hostname: 'https://shop.example',
  formSubmitURL: 'https://shop.example',
  httpRealm: null,
  username,
  password,
  usernameField: '',
  passwordField: '',
  timeCreated: 1_600_000_000_000,
  timePasswordChanged: 1_600_000_000_000,
  timeLastUsed,
})
const page = (id: string, histUri: string): Clear => ({
  id,
  histUri,
  title: histUri,
  visits: [{ date: 1_700_000_000_000_000, type: 1 }],
})

/** A few records of each kind that the explorer can change; a bookmark and a login are there twice. */
const records: Record<string, Clear[]> = {
  bookmarks: [
    folder('toolbar', 'places', 'toolbar', ['newsfolder00', 'mail00000000', 'separator000', 'mailagain000']),
    folder('newsfolder00', 'toolbar', 'News', ['morning00000', 'evening00000']),
    bookmark('morning00000', 'newsfolder00', 'Morning', 'https://morning.example/', { tags: ['daily'] }),
    bookmark('evening00000', 'newsfolder00', 'Evening', 'https://evening.example/'),
    bookmark('mail00000000', 'toolbar', 'Mail', 'https://mail.example/', { tags: ['daily'] }),
    { id: 'separator000', type: 'separator', parentid: 'toolbar' },
    bookmark('mailagain000', 'toolbar', 'Mail again', 'https://mail.example/', { tags: ['daily'] }),
    folder('unfiled', 'places', 'unfiled', ['stray0000000']),
    bookmark('stray0000000', 'unfiled', 'Stray', 'https://stray.example/'),
  ],
  passwords: [
    login('{11111111-1111-4111-8111-111111111111}', 'anna', 'old secret', 1_700_000_000_000),
    login('{22222222-2222-4222-8222-222222222222}', 'anna', 'older secret', 1_650_000_000_000),
  ],
  history: [
    page('history00001', 'https://old.example/one'),
    page('history00002', 'https://old.example/two'),
    page('history00003', 'https://new.example/'),
  ],
  forms: [{ id: 'formentry001', name: 'city', value: 'Lisbon' }],
}

/** Adds a user with these records, and more bookmarks in Other Bookmarks. */
export function addCollector(sandbox: Sandbox, name: string, moreBookmarks = 0): SandboxUser {
  const user = sandbox.addUser(name)
  const keys = toKeyBundle(user.syncKey)
  const seal = (clear: { id: string }) => ({
    id: clear.id,
    payload: encryptPayload(keys, clear, Buffer.alloc(16, 1)),
  })
  const more = Array.from({ length: moreBookmarks }, (_, index) =>
    bookmark(`more${index}`.padEnd(12, '0'), 'unfiled', `More ${index}`, `https://more${index}.example/`),
  )
  sandbox.write(user, 'crypto', [seal(keysRecord(keys) as { id: string })])
  for (const [collection, all] of Object.entries(records)) {
    const given = all.map((record) =>
      record.id === 'unfiled'
        ? { ...record, children: ['stray0000000', ...more.map(({ id }) => id)] }
        : record,
    )
    sandbox.write(user, collection, [...given, ...(collection === 'bookmarks' ? more : [])].map(seal))
  }
  return user
}

/** Another client of the same account, through the same bridge. */
export function clientOf(user: SandboxUser, bridgeUrl: string): SyncClient {
  const { clientState: bucket, keyId, syncKey } = user
  return new SyncClient({
    bridgeUrl,
    bucket,
    keyId,
    token: user.bearerToken(),
    syncKey: syncKey.toString('hex'),
  })
}

/** The titles below a folder as stored, in order, those in another folder after its title and a slash. */
export async function outlineOf(client: SyncClient, root = 'toolbar'): Promise<string[]> {
  const tree = await client.tree()
  return below(tree, root).map(({ kind, title, parent }) => {
    const name = kind === 'separator' ? '---' : title
    return parent === root ? name : `${tree.items.get(parent)!.title}/${name}`
  })
}

/** The decrypted records of a collection that are not deleted. */
export async function recordsOf(client: SyncClient, collection: string): Promise<Record<string, unknown>[]> {
  const found: Record<string, unknown>[] = []
  for await (const { clear } of client.collection(collection).records())
    if (clear !== null && clear.deleted !== true) found.push(clear)
  return found
}

/**
 * Backs up all collections to a folder, encrypted as they are. The next run fetches only what has changed since.
 *
 *   bun docs/examples/backup.ts FOLDER
 *
 * with BRIDGE_URL, BUCKET, BEARER_TOKEN and KEY_ID in the environment. A collection becomes FOLDER/<collection>/, a record
 * one file in there, named after its id. Keep the sync key somewhere else: without it nobody can read this backup, with it
 * anybody can. `restore.ts` puts it back.
 *
 * Records that somebody has deleted without leaving a trace stay in the backup.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { list, readUser } from './bridge.js'

const folder = process.argv[2]
if (!folder) {
  console.error('Usage: bun backup.ts FOLDER')
  process.exit(2)
}
try {
  await backUp(folder)
} catch (error) {
  console.error((error as Error).message)
  process.exit(1)
}

async function backUp(folder: string): Promise<void> {
  const user = readUser(process.env)
  const statePath = join(folder, 'state.json')
  const saved: Record<string, string> = await readFile(statePath, 'utf8').then(JSON.parse, () => ({}))
  await mkdir(folder, { recursive: true })
  const { records: collections } = await list(user, '/collections')
  for (const [index, { id: collection, last_modified }] of collections.entries()) {
    const place = `[${index + 1}/${collections.length}] ${collection}:`
    const since = saved[collection]
    if (since === `"${last_modified}"`) {
      console.log(`${place} unchanged`)
      continue
    }
    // A collection that is older than it was has been wiped and filled anew: what is in it now may be older, too.
    const isSameStore = since !== undefined && Number(since.replaceAll('"', '')) < last_modified
    // Oldest first: should this stop half-way, nothing that is older than what was saved is missing.
    const filter = isSameStore ? `&_since=${encodeURIComponent(since)}` : ''
    const path = `/collections/${collection}/records?_sort=oldest&_limit=1000${filter}`
    const { records, etag } = await list(user, path)
    await mkdir(join(folder, collection), { recursive: true })
    for (const record of records) {
      const file = join(folder, collection, `${encodeURIComponent(record.id)}.json`)
      await replaceFile(file, JSON.stringify(record))
    }
    // Only now, when all of the collection is there.
    saved[collection] = etag!
    await replaceFile(statePath, JSON.stringify(saved, null, 2))
    console.log(`${place} ${records.length} ${records.length === 1 ? 'record' : 'records'}`)
  }
}

/** Writes a file so that it is there whole, or as it was before. */
async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text)
  await rename(`${path}.new`, path)
}

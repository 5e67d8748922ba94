/**
 * Backs up all collections to a folder, encrypted as they are. The next run fetches only what has changed since.
 *
 *   bun docs/examples/backup.ts FOLDER
 *
 * with BRIDGE_URL, BUCKET, BEARER_TOKEN and KEY_ID in the environment, as `sync-bridge sandbox` prints them. A collection
 * becomes FOLDER/<collection>/, a record one file in there, named after its id. Keep the sync key somewhere else: without
 * it nobody can read this backup, with it anybody can.
 *
 * Records that somebody has deleted without leaving a trace stay in the backup.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { list } from './bridge.js'

const folder = process.argv[2]
if (!folder) {
  console.error('Usage: bun backup.ts FOLDER')
  process.exit(2)
}
const user = process.env as Record<string, string>
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
  // Oldest first: should this stop half-way, nothing that is older than what was saved is missing.
  const filter = since ? `&_since=${encodeURIComponent(since)}` : ''
  const { records, etag } = await list(
    user,
    `/collections/${collection}/records?_sort=oldest&_limit=1000${filter}`,
  )
  await mkdir(join(folder, collection), { recursive: true })
  for (const record of records) {
    await replaceFile(
      join(folder, collection, `${encodeURIComponent(record.id)}.json`),
      JSON.stringify(record),
    )
  }
  // Only now, when all of the collection is there.
  saved[collection] = etag!
  await replaceFile(statePath, JSON.stringify(saved, null, 2))
  console.log(`${place} ${records.length} ${records.length === 1 ? 'record' : 'records'}`)
}

/** Writes a file so that it is there whole, or as it was before. */
async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text)
  await rename(`${path}.new`, path)
}

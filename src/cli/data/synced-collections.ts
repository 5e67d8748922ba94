import { ClientError } from '../../client/errors.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { SyncClient } from '../../client/sync-client.ts'

/** What Firefox records about the collections that it syncs, by name. */
export type Engines = Record<string, { syncID?: string } | undefined>

interface MetaRecord {
  syncID?: string
  globalSyncID?: string
  engines?: Engines
}

/** Reads which collections Firefox syncs, with their sync ids; null if that can't be read. */
export async function readEngines(client: SyncClient): Promise<Engines | null> {
  try {
    const found: StoredRecord[] = []
    for await (const { records } of client.collection('meta').storedPages()) found.push(...records)
    return enginesOf(found)
  } catch (error) {
    if (!(error instanceof ClientError) || error.field !== null) throw error
    return null
  }
}

/** Which collections Firefox syncs, from the records of `meta`, which are not encrypted; null if they don't say. */
export function enginesOf(records: StoredRecord[]): Engines | null {
  const [global, syncids] = ['global', 'syncids'].map((id) => metaOf(records.find((each) => each.id === id)))
  if (!global?.engines) return null
  // Devices that must not change `global` write this record instead. Firefox reads it if it is of the same storage.
  const isCurrent = syncids?.engines !== undefined && syncids.globalSyncID === global.syncID
  return { ...(isCurrent && syncids.engines), ...global.engines }
}

function metaOf(record: StoredRecord | undefined): MetaRecord | null {
  try {
    const content: unknown = JSON.parse(record?.payload ?? '')
    if (typeof content !== 'object' || content === null) return null
    const { engines } = content as MetaRecord
    return { ...content, engines: typeof engines === 'object' && engines !== null ? engines : undefined }
  } catch {
    return null
  }
}

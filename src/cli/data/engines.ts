import { ClientError } from '../../client/errors.ts'
import type { SyncClient } from '../../client/sync-client.ts'

/** What Firefox records about the collections that it syncs, by name. */
type Engines = Record<string, { syncID?: string } | undefined>

interface MetaRecord {
  syncID?: string
  globalSyncID?: string
  engines?: Engines
}

/** Reads which collections Firefox syncs, with their sync ids, from the only records that are not encrypted; null if they can't be read. */
export async function readEngines(client: SyncClient): Promise<Engines | null> {
  const found: Record<string, MetaRecord> = {}
  try {
    for await (const { clear } of client.collection('meta').records())
      if (clear) found[clear.id] = clear as MetaRecord
  } catch (error) {
    if (!(error instanceof ClientError) || error.field !== null) throw error
    return null
  }
  const { global, syncids } = found
  // Devices that must not change `global` write this record instead. Firefox reads it if it is of the same storage.
  const isCurrent = syncids !== undefined && syncids.globalSyncID === global?.syncID
  return { ...(isCurrent && syncids.engines), ...global?.engines }
}

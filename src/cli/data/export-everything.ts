import { ClientError } from '../../client/errors.ts'
import { EverythingWriter } from '../../client/record-formats.ts'
import { errno } from '../../domain/errors.ts'
import { collectYoungGarbage } from '../host.ts'
import { readEngines } from './synced-collections.ts'
import { countOf } from './phrases.ts'
import type { SyncRecord } from '../../client/collection.ts'
import type { Progress } from './progress.ts'
import type { Session } from './session.ts'

/** What could not be read. */
interface Missing {
  unreadable: SyncRecord[]
  /** Collections, each with the reason. */
  incomplete: Map<string, string>
}

const charactersInPart = 500_000

/**
 * Exports all collections that Firefox syncs or that the bridge lists, but for the keys, in parts as they are read. Notes what is missing.
 * Rejects with `ClientError` if the credentials are refused.
 */
export async function* exportEverything(
  { client, host }: Session,
  since: number | null,
  { unreadable, incomplete }: Missing,
  progress: Progress,
): AsyncGenerator<string> {
  const listed = (await client.collections()).map(({ name }) => name)
  const engines = await readEngines(client)
  const names = new Set(['meta', ...listed, ...Object.keys(engines ?? {})])
  names.delete('crypto')
  const writer = new EverythingWriter()
  let text = writer.begin(new Date(host.now()))
  for (const name of [...names].toSorted()) {
    text += writer.collection(name)
    let count = 0
    try {
      for await (const { records } of client.collection(name).pages({ since: since ?? undefined })) {
        for (const record of records) {
          if (record.clear?.deleted === true) continue
          // Without the encrypted payload, which is long.
          if (record.clear === null) unreadable.push({ ...record, stored: { ...record.stored, payload: '' } })
          text += writer.record(record)
          if (text.length < charactersInPart) continue
          yield text
          text = ''
        }
        collectYoungGarbage()
        count += records.length
        progress.show(`${name}: ${countOf(count, 'record')} read`)
      }
    } catch (error) {
      if (!(error instanceof ClientError) || error.field !== null) throw error
      const isHidden = error.errno === errno.unknownPath
      incomplete.set(name, isHidden ? 'this bridge does not expose it' : error.message)
    }
  }
  if (engines === null && !incomplete.has('meta'))
    incomplete.set('meta', 'the list of what Firefox syncs is missing or damaged')
  yield text + writer.end(incomplete)
}

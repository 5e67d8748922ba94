/**
 * `bun bounded-undo.ts BRIDGE BYTES save|parts` deletes two logins of the account file, together or one after the other. What undoes them may
 * take so many bytes.
 */
import { ClientError } from '../../../src/client/errors.ts'
import { readAccountFile } from '../../../src/client/account-file.ts'
import { SyncClient } from '../../../src/client/sync-client.ts'
import { UndoLog } from '../../../src/cli/data/undo-log.ts'
import { testHost } from '../../support/bridge.ts'

const [bridgeUrl, bytes, mode] = process.argv.slice(2)
const client = new SyncClient({ ...readAccountFile(), bridgeUrl })
const host = { ...testHost(), environment: process.env }
const tell = (text: string) => void process.stderr.write(`${text}\n`)
const log = new UndoLog({ client, host, bridgeUrl: bridgeUrl!, fetch, tell }, 'rm', true, Number(bytes))
const options = { collection: 'passwords' }
const [one, two] = ['{1}', '{2}'].map((id) => ({ op: 'remove' as const, id }))
try {
  if (mode === 'save') log.finish((await log.save([one!, two!], options)).saved, 'both')
  else {
    await log.savePart([one!], options)
    await log.savePart([two!], options)
    log.end('both')
  }
} catch (error) {
  if (!(error instanceof ClientError)) throw error
  if (mode !== 'save') log.end('interrupted')
  tell(error.message)
  process.exitCode = 1
}

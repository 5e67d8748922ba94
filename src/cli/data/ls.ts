import { ClientError } from '../../client/errors.ts'
import { describeRecord } from '../../client/engines.ts'
import { printableLine, jsonText } from '../../client/safe-text.ts'
import { isoOf } from '../../client/tables.ts'
import { withAccount, type Session } from './session.ts'
import { partialSuccess, UsageError, type CommandFactory } from '../command.ts'
import { createOutputQueue, writeOut } from '../output.ts'
import { describeAbsent, refuseKeys } from './collection-names.ts'
import { collectionArgument, describeAccountCommand } from './options.ts'
import type { SyncRecord } from '../../client/collection.ts'

export const lsCommand: CommandFactory = (perform) =>
  describeAccountCommand('ls', 'list the collections of your account, or the records of one')
    .addArgument(collectionArgument('the collection whose records to list'))
    .option('--json', 'print one JSON object per line, for programs')
    .option('--deleted', 'only deletions, which other devices still have to apply')
    .action(
      perform((host, collection, options) => {
        if (collection === undefined && options.deleted)
          throw new UsageError('--deleted needs a COLLECTION, such as bookmarks')
        return withAccount(options, host, {}, (session) =>
          collection === undefined
            ? listCollections(session, options)
            : listRecords(session, collection, options),
        )
      }),
    )

interface Look {
  json?: boolean
  deleted?: boolean
}

async function listCollections({ client, host }: Session, { json }: Look): Promise<number> {
  const infos = await client.collections()
  const counts = await Promise.all(infos.map(({ name }) => client.collection(name).count()))
  const rows = infos.map(({ name, lastModified }, index) => {
    return { name, records: counts[index]!.total, lastModified }
  })
  const text = json
    ? rows.map((row) => `${jsonText(row)}\n`).join('')
    : table([
        ['COLLECTION', 'RECORDS', 'LAST CHANGE'],
        ...rows.map(({ name, records, lastModified }) => [name, String(records), minuteOf(lastModified)]),
      ])
  await writeOut(host, text)
  return 0
}

async function listRecords(
  { client, host, tell }: Session,
  name: string,
  { json: asJson = false, deleted: wantsDeleted = false }: Look,
): Promise<number> {
  refuseKeys(name)
  const problem = await describeAbsent(client, name)
  if (problem !== null) throw new ClientError(problem)
  let unreadable = 0
  const output = createOutputQueue(host)
  if (!asJson) await output.write(row(['ID', 'LAST CHANGE', 'WHAT']))
  for await (const page of client.collection(name).pages()) {
    unreadable += page.records.filter(({ clear }) => clear === null).length
    const shown = page.records.filter(({ clear }) => (clear?.deleted === true) === wantsDeleted)
    if (!(await output.write(shown.map(asJson ? jsonLine : tableLine).join('')))) break
  }
  if (!(await output.finish())) return 0
  if (unreadable === 0) return 0
  tell(`${unreadable} of these cannot be decrypted`)
  return partialSuccess
}

/** Formats a record as one line of JSON: where it is, when it changed, and its content, or why it can't be read. */
export function jsonLine({ collection, stored, clear, problem }: SyncRecord): string {
  const { id, last_modified } = stored
  let content: object = clear === null ? { problem } : { content: clear }
  if (clear?.deleted === true) content = { deleted: true }
  return `${jsonText({ collection, id, last_modified, ...content })}\n`
}

function tableLine({ collection, stored, clear, problem }: SyncRecord): string {
  return row([
    stored.id,
    minuteOf(stored.last_modified),
    clear === null ? `(${problem})` : describeRecord(collection, clear),
  ])
}

/** Formats a time to the minute, in the local time zone. */
function minuteOf(ms: number): string {
  if (!(ms > 0)) return '-'
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return isoOf(local.getTime()).slice(0, 16).replace('T', ' ')
}

function row(cells: string[]): string {
  const [id, when, what] = cells.map(printableLine)
  return `${id!.padEnd(14)}  ${when!.padEnd(16)}  ${what}\n`
}

function table(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((cells) => cells[column]!.length)))
  const padded = (cell: string, column: number) => printableLine(cell).padEnd(widths[column]!)
  return rows.map((cells) => `${cells.map(padded).join('  ').trimEnd()}\n`).join('')
}

import { ClientError } from '../../client/errors.ts'
import { contentsOf, describeRecord } from '../../client/engine-records.ts'
import { readBookmark } from '../../client/record-readers.ts'
import { printableLine, jsonText } from '../../client/safe-text.ts'
import { withAccount, type Session } from './session.ts'
import { partialSuccess, UsageError, type CommandFactory } from '../command.ts'
import { createOutputQueue, writeOut } from '../output.ts'
import { describeAbsent, neverShown, refuseKeys } from './collection-names.ts'
import { minuteOf } from './dates.ts'
import { collectionArgument, describeAccountCommand } from './options.ts'
import { countOf } from './phrases.ts'
import type { SyncRecord } from '../../client/collection.ts'

export const lsCommand: CommandFactory = (perform) =>
  describeAccountCommand('ls', 'list the collections of your account, or the records of one')
    .addArgument(collectionArgument('the collection whose records to list', neverShown))
    .option('--json', 'print one JSON object per line, for programs')
    .option('--deleted', 'only deletions: records that say that something was deleted')
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
    return { name, records: counts[index]!.total, last_modified: lastModified }
  })
  const text = json
    ? rows.map((row) => `${jsonText(row)}\n`).join('')
    : table([
        ['COLLECTION', 'RECORDS', 'LAST CHANGE', 'WHAT'],
        ...(await Promise.all(
          rows.map(async ({ name, records, last_modified: changedAt }) => {
            const what = name === 'bookmarks' ? await kindsOfBookmarks(client) : contentsOf(name)
            return [name, String(records), minuteOf(changedAt), what]
          }),
        )),
      ])
  await writeOut(host, text)
  return 0
}

/** Such as "272 bookmarks, 28 folders": a record of the collection may be any of these. */
async function kindsOfBookmarks(client: Session['client']): Promise<string> {
  const counts = { bookmark: 0, folder: 0, separator: 0, deletion: 0, 'unreadable record': 0 }
  for await (const { records } of client.collection('bookmarks').pages()) {
    for (const { clear } of records) {
      if (clear === null) counts['unreadable record'] += 1
      else counts[clear.deleted === true ? 'deletion' : readBookmark(clear).kind] += 1
    }
  }
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => countOf(count, kind))
    .join(', ')
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
  /** Of the ids, which have one length in most collections; 0 until there is a row. */
  let width = 0
  for await (const page of client.collection(name).pages()) {
    unreadable += page.records.filter(({ clear }) => clear === null).length
    const shown = page.records.filter(({ clear }) => (clear?.deleted === true) === wantsDeleted)
    if (!asJson && width === 0 && shown.length > 0) {
      width = Math.max(minIdWidth, ...shown.map(({ stored }) => stored.id.length))
      await output.write(row(['ID', 'LAST CHANGE', 'WHAT'], width))
    }
    const lines = shown.map((record) => (asJson ? jsonLine(record) : tableLine(record, width)))
    if (!(await output.write(lines.join('')))) break
  }
  if (!(await output.finish())) return 0
  if (!asJson && width === 0) tell(wantsDeleted ? 'No deletions' : 'No records')
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

function tableLine({ collection, stored, clear, problem }: SyncRecord, idWidth: number): string {
  const what = clear === null ? `(${problem})` : describeRecord(collection, clear)
  const whatElse = clear?.deleted === true ? '(deleted)' : '(no title)'
  return row([stored.id, minuteOf(stored.last_modified), what || whatElse], idWidth)
}

const minIdWidth = 12

function row(cells: string[], idWidth: number): string {
  const [id, when, what] = cells.map(printableLine)
  return `${id!.padEnd(idWidth)}  ${when!.padEnd(16)}  ${what}\n`
}

function table(rows: string[][]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((cells) => cells[column]!.length)))
  const padded = (cell: string, column: number) => printableLine(cell).padEnd(widths[column]!)
  return rows.map((cells) => `${cells.map(padded).join('  ').trimEnd()}\n`).join('')
}

import { bookmarkTree, deepestLevel, folderNamed, walk, type BookmarkNode } from '../../client/bookmarks.ts'
import { isReadable, type ReadableRecord, type SyncRecord } from '../../client/collection.ts'
import { faultOf, isUsable } from '../../client/engine-records.ts'
import { readVisitedPage } from '../../client/record-readers.ts'
import { ClientError } from '../../client/errors.ts'
import { exportFormats, type Exported, type ExportFormats } from '../../client/export-formats.ts'
import { deviceTabs } from '../../client/record-formats.ts'
import { printable, printableLine } from '../../client/safe-text.ts'
import { reasonOf } from '../../settings/readers.ts'
import { interruption } from '../signals.ts'
import { isSpecial, streamWhole, writeWhole } from './whole-file.ts'
import {
  Argument,
  DependentOption,
  oneOf,
  partialSuccess,
  UsageError,
  type CommandFactory,
} from '../command.ts'
import { exportEverything } from './export-everything.ts'
import { collectYoungGarbage, type Host } from '../host.ts'
import { createOutputQueue } from '../output.ts'
import { isConfirmed } from './ask.ts'
import { describeAccountCommand, folderOption, sinceOption } from './options.ts'
import { countOf, someOf } from './phrases.ts'
import { Progress } from './progress.ts'
import { withAccount, type Session } from './session.ts'

const whats = Object.keys(exportFormats) as (keyof Exported)[]
const formatsOf = (what: keyof Exported) => Object.keys(exportFormats[what])
const allFormats = [...new Set(whats.flatMap(formatsOf))]

export const exportCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'export',
    'write your data, decrypted, to standard output or a file',
    'Without --format, the first one: bookmarks as HTML, which every browser imports. Exits 3 if something cannot be read, and lists it.',
  )
    .addArgument(new Argument('<WHAT>', 'your data').choices(whats).argParser(oneOf(whats)))
    .addOption(
      new DependentOption(
        '-f, --format <FORMAT>',
        whats.map((what) => `${what}: ${formatsOf(what).join(', ')}`).join('; '),
        Object.fromEntries(whats.map((what) => [what, formatsOf(what)])),
      )
        .choices(allFormats)
        .argParser(oneOf(allFormats)),
    )
    .addOption(folderOption('only this bookmarks folder, by title or id'))
    .addOption(sinceOption)
    .option('-o, --output <FILE>', 'the file to write, - for standard output; on failure it stays unchanged')
    .option('--raw', 'keep texts exact, which is not safe in spreadsheets and terminals')
    .action(
      perform((host, what, { folder = null, since, output: given = null, raw = false, ...options }) => {
        const output = given === '-' ? null : given
        const formats = formatsOf(what)
        const { format = formats[0]! } = options
        if (!formats.includes(format))
          throw new UsageError(`${what} cannot be written as ${format}: use ${formats.join(', ')}`)
        if (folder !== null && what !== 'bookmarks')
          throw new UsageError('--folder only applies to bookmarks')
        const showsPasswords = what === 'passwords' || what === 'everything'
        if (showsPasswords && output === null && host.stdout.isTty && !isConfirmed(question, remedy)) return 1
        const choice = { format, folder, since: since?.(host.now()) ?? null, isRaw: raw }
        return withAccount(options, host, {}, async (session) => {
          const reading = new Reading(session)
          if (what === 'everything') {
            const parts = exportEverything(session, choice.since, reading, reading.progress)
            await deliver(parts, output, raw, host)
            reading.progress.clear()
            return reading.finish(output)
          }
          const { text, count } = await write(what, reading, choice)
          reading.progress.clear()
          await deliver(typeof text === 'string' ? [text] : frugally(text), output, raw, host)
          return reading.finish(output, countOf(count, nouns[what]))
        })
      }),
    )

const nouns = { bookmarks: 'bookmark', history: 'page', passwords: 'password', tabs: 'tab' }

const question = 'This shows your passwords on the terminal. Continue?'
const remedy = 'Use --output FILE.'

interface Choice {
  format: string
  /** A title or id, or null. */
  folder: string | null
  /** In ms since 1970, or null. */
  since: number | null
  isRaw: boolean
}

/** Passes on parts, and collects garbage from time to time. */
function* frugally(parts: Iterable<string>): Generator<string> {
  let characters = 0
  for (const part of parts) {
    yield part
    characters += part.length
    if (characters < charactersBetween) continue
    collectYoungGarbage()
    characters = 0
  }
}

const charactersBetween = 2_000_000

/** Prints parts, or writes them to a file. A file is complete or as it was before, also after Ctrl+C. */
async function deliver(
  parts: Iterable<string> | AsyncGenerator<string>,
  output: string | null,
  isRaw: boolean,
  host: Host,
): Promise<void> {
  if (output === null) return print(parts, isRaw, host)
  try {
    // Pipes may block.
    const isFile = !isSpecial(output)
    if (Symbol.asyncIterator in parts)
      await streamWhole(output, isFile ? untilStopped(parts, host) : parts, host)
    else {
      // Ctrl+C waits until the file is complete, because it would leave a draft with decrypted data.
      if (isFile) for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) host.onSignal(name, () => {})
      writeWhole(output, parts, host)
    }
  } catch (error) {
    if (error instanceof ClientError) throw error
    throw new ClientError(`Cannot write ${output} (${reasonOf(error)})`)
  }
}

/** Writes parts to stdout; on a terminal, without what could control it. */
async function print(
  parts: Iterable<string> | AsyncIterable<string>,
  isRaw: boolean,
  host: Host,
): Promise<void> {
  const isExact = isRaw || !host.stdout.isTty
  const queue = createOutputQueue(host)
  for await (const part of parts) if (!(await queue.write(isExact ? part : printable(part)))) break
  await queue.finish()
}

/**
 * Passes on parts; rejects with `ClientError` at a signal. Not with `Promise.race`, which would keep every part until the end: the promise of
 * the signal holds the result of each race.
 */
async function* untilStopped(parts: AsyncGenerator<string>, host: Host): AsyncGenerator<string> {
  const stopped = new ClientError('Interrupted: nothing was written')
  let isStopped = false
  let stop = () => {}
  void interruption(host).then(() => {
    isStopped = true
    stop()
  })
  for (;;) {
    const { value, done } = await new Promise<IteratorResult<string>>((resolve, reject) => {
      stop = () => reject(stopped)
      parts.next().then(resolve, reject)
    })
    if (isStopped) throw stopped
    if (done) return
    yield value
  }
}

/** Reads the data for an export, and tracks what could not be read. */
class Reading {
  readonly progress: Progress
  readonly unreadable: SyncRecord[] = []
  /** Collections that could not be read, with the reason. */
  readonly incomplete = new Map<string, string>()
  /** Some of the records that are not what their engine writes, each with what is wrong. */
  readonly #faults: string[] = []
  #faultCount = 0

  constructor(readonly session: Session) {
    this.progress = new Progress(session.host)
  }

  /** Reads the readable records of a collection; `keep` returns the part to keep. */
  async readAll<Kept>(
    collection: string,
    keep: (record: ReadableRecord) => Kept,
    { since }: { since?: number | null } = {},
  ): Promise<Kept[]> {
    const kept: Kept[] = []
    const unreadable: SyncRecord[] = []
    const options = { since: since ?? undefined }
    for await (const { records } of this.session.client.collection(collection).pages(options)) {
      for (const record of records) {
        if (isReadable(record)) {
          if (!this.#check(record)) continue
          kept.push(keep(record))
        } else if (record.clear === null) unreadable.push(record)
      }
      collectYoungGarbage()
      this.progress.show(`${collection}: ${countOf(kept.length, 'record')} read`)
    }
    for (const record of unreadable) this.unreadable.push(record)
    return kept
  }

  /** Whether a record means something; notes what is wrong with it. */
  #check({ collection, stored, clear }: ReadableRecord): boolean {
    const fault = faultOf(collection, clear)
    if (fault === null) return true
    this.#faultCount += 1
    if (this.#faults.length < maxFaults)
      this.#faults.push(printableLine(`${collection}/${stored.id}: ${fault}`))
    return isUsable(collection, clear)
  }

  /** Reports what was written, such as "3 tabs", and what is missing; returns the exit code. */
  finish(output: string | null, written = ''): number {
    const { tell } = this.session
    for (const [collection, reason] of this.incomplete) tell(`Cannot read ${collection}: ${reason}`)
    if (this.unreadable.length > 0) {
      const ids = this.unreadable.map(({ collection, stored }) => `${collection}/${stored.id}`)
      tell(`${countOf(ids.length, 'record')} cannot be decrypted: ${someOf(ids)}`)
    }
    if (this.#faultCount > 0) {
      const records = this.#faultCount === 1 ? '1 record is' : `${this.#faultCount} records are`
      const result = 'not what Firefox writes, and left out or written without this field:'
      tell([`${records} ${result}`, ...this.#faults].join('\n  '))
    }
    const isWhole = this.incomplete.size === 0 && this.unreadable.length + this.#faultCount === 0
    const what = written === '' ? output : `${written} to ${output}`
    if (output !== null) tell(isWhole ? `Wrote ${what}` : `Wrote ${what}, except for the above`)
    return isWhole ? 0 : partialSuccess
  }
}

const maxFaults = 10

type SingleExport = Omit<Exported, 'everything'>

async function write<What extends keyof SingleExport>(
  what: What,
  reading: Reading,
  choice: Choice,
): Promise<{ text: string | Iterable<string>; count: number }> {
  const formats: ExportFormats = exportFormats
  const format = formats[what][choice.format]!
  const data = await readers[what](reading, choice)
  return { text: format(data as Exported[What], { isRaw: choice.isRaw }), count: countIn(what, data) }
}

/** The number of bookmarks, pages, passwords or tabs. */
function countIn(what: keyof SingleExport, data: SingleExport[keyof SingleExport]): number {
  if (what === 'bookmarks')
    return walk(data as SingleExport['bookmarks']).filter(({ kind }) => kind === 'bookmark').length
  if (what === 'tabs') return (data as SingleExport['tabs']).reduce((sum, { tabs }) => sum + tabs.length, 0)
  return data.length
}

const readers: {
  [What in keyof SingleExport]: (reading: Reading, choice: Choice) => Promise<SingleExport[What]>
} = {
  async bookmarks(reading, { folder, since }) {
    const tree = bookmarkTree(await reading.readAll('bookmarks', (record) => record))
    collectYoungGarbage()
    const tops = changedSince(folder === null ? tree : [folderNamed(tree, folder)], since)
    const deep = tops.flatMap((top) => walk([top]).filter(({ level }) => level - top.level >= deepestLevel))
    if (deep.length > 0)
      reading.session.tell(
        `${deep.length} entries are more than ${deepestLevel} levels deep: they are written flat`,
      )
    return tops
  },
  async history(reading, { since }) {
    const keep = ({ clear }: ReadableRecord) => {
      const page = readVisitedPage(clear)
      return since === null ? page : { ...page, visits: page.visits.filter(({ atMs }) => atMs > since) }
    }
    const pages = await reading.readAll('history', keep, { since })
    return since === null ? pages : pages.filter(({ visits }) => visits.length > 0)
  },
  passwords: (reading, { since }) => reading.readAll('passwords', (record) => record, { since }),
  tabs: (reading, { since }) => reading.readAll('tabs', (record) => deviceTabs(record, since ?? 0)),
}

/** The nodes changed after a time, with their folders. */
function changedSince(tops: BookmarkNode[], since: number | null): BookmarkNode[] {
  if (since === null) return tops
  const kept = new Set<BookmarkNode>()
  const nodes = walk(tops)
  for (const node of nodes.toReversed()) {
    const isChanged = node.kind === 'bookmark' && node.record.stored.last_modified > since
    if (isChanged || node.children.some((child) => kept.has(child))) kept.add(node)
  }
  for (const node of nodes) node.children = node.children.filter((child) => kept.has(child))
  return tops.filter((top) => kept.has(top))
}

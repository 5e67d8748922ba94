import {
  bookmarksCsv,
  bookmarksMarkdown,
  bookmarkUrls,
  inMarkdown,
  inOneLine,
  markdownLink,
  plainBookmarks,
} from '../../client/bookmark-lists.ts'
import { bookmarkTree, folderNamed, walk, type BookmarkNode } from '../../client/bookmarks.ts'
import { isReadable, type ReadableRecord, type SyncRecord } from '../../client/collection.ts'
import { ClientError } from '../../client/errors.ts'
import { readTabs, readVisitedPage, type Tab } from '../../client/engines.ts'
import {
  bookmarksHtml,
  csv,
  everythingJson,
  historyCsv,
  isoOf,
  jsonText,
  noFormula,
  passwordsCsv,
} from '../../client/files.ts'
import { reasonOf } from '../../settings/readers.ts'
import { isSpecial, writeWhole } from './account-file.ts'
import { collectYoungGarbage } from './garbage.ts'
import { exportFormats } from './export-formats.ts'
import { readMoment } from './dates.ts'
import { Progress } from './progress.ts'
import { countOf, partialSuccess, readNext, someOf, withAccount, writeOut, type Session } from './session.ts'
import { UsageError } from './usage-error.ts'
import type { GivenOptions } from '../command-line.ts'
import type { Host } from '../host.ts'

type What = keyof typeof exportFormats

interface Choice {
  format: string
  folder: string | null
  /** In ms since 1970, or null. */
  since: number | null
}

/** Writes the decrypted data of an account to standard output or a file. */
export function exportData(options: GivenOptions, words: string[], host: Host): Promise<number> {
  const what = words[0] as What
  const choice = readChoice(what, options, host.now())
  const [output = null] = options.get('output') ?? []
  return withAccount(options, host, {}, async (session) => {
    const reading = new Reading(session)
    const text = await makers[what](reading, choice)
    reading.progress.clear()
    await deliver(typeof text === 'string' ? [text] : frugally(text), output, host)
    return reading.finish(output)
  })
}

function readChoice(what: What, options: GivenOptions, nowMs: number): Choice {
  const formats = exportFormats[what]
  const [format = formats[0]!] = options.get('format') ?? []
  if (!formats.includes(format))
    throw new UsageError(
      `--format ${JSON.stringify(format)} is unknown for ${what}: use ${formats.join(' or ')}`,
    )
  const [folder = null] = options.get('folder') ?? []
  if (folder !== null && what !== 'bookmarks') throw new UsageError('--folder only applies to bookmarks')
  return { format, folder, since: readMoment(options, 'since', nowMs) }
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

async function deliver(parts: Iterable<string>, output: string | null, host: Host): Promise<void> {
  if (output === null) {
    for (const part of parts) if (!(await writeOut(host, part))) return
    return
  }
  try {
    // Ctrl+C takes effect only when the file is complete, because it would leave a draft with decrypted data. Not for pipes, which may block.
    if (!isSpecial(output))
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) host.onSignal(name, () => {})
    writeWhole(output, parts)
  } catch (error) {
    throw new ClientError(`Cannot write ${output} (${reasonOf(error)})`)
  }
}

/** Reads the data for an export, and tracks what could not be read. */
class Reading {
  readonly progress: Progress
  readonly unreadable: SyncRecord[] = []
  /** Collections that could not be read, with the reason. */
  readonly incomplete = new Map<string, string>()

  constructor(readonly session: Session) {
    this.progress = new Progress(session.host)
  }

  /** Reads the readable records of a collection; `keep` returns the part to keep. */
  async readAll<Kept>(
    collection: string,
    keep: (record: ReadableRecord) => Kept,
    since?: number | null,
  ): Promise<Kept[]> {
    const kept: Kept[] = []
    const unreadable: SyncRecord[] = []
    const options = { since: since ?? undefined }
    for await (const { records } of this.session.client.collection(collection).pages(options)) {
      for (const record of records) {
        if (isReadable(record)) kept.push(keep(record))
        else if (record.clear === null) unreadable.push(record)
      }
      collectYoungGarbage()
      this.progress.show(`${collection}: ${countOf(kept.length, 'record')} read`)
    }
    for (const record of unreadable) this.unreadable.push(record)
    return kept
  }

  /** Reports what is missing; returns the exit code. */
  finish(output: string | null): number {
    const { tell } = this.session
    for (const [collection, reason] of this.incomplete) tell(`Cannot read ${collection}: ${reason}`)
    if (this.unreadable.length > 0) {
      const ids = this.unreadable.map(({ collection, stored }) => `${collection}/${stored.id}`)
      tell(`${countOf(ids.length, 'record')} cannot be decrypted: ${someOf(ids)}`)
    }
    const isWhole = this.incomplete.size === 0 && this.unreadable.length === 0
    if (output !== null && !isWhole) tell(`Wrote ${output}, except for the above`)
    // Cron mails all output, so success is only reported on terminals.
    else if (output !== null && this.session.host.stderr.isTty) tell(`Wrote ${output}`)
    return isWhole ? 0 : partialSuccess
  }
}

const makers: Record<What, (reading: Reading, choice: Choice) => Promise<string | Iterable<string>>> = {
  async bookmarks(reading, { format, folder, since }) {
    const records = await reading.readAll('bookmarks', (record) => record)
    const tree = bookmarkTree(records)
    const tops = changedSince(folder === null ? tree : [folderNamed(tree, folder)], since)
    return bookmarkFormats[format]!(tops)
  },
  async history(reading, { format, since }) {
    const keep = ({ clear }: ReadableRecord) => {
      const page = readVisitedPage(clear)
      return since === null ? page : { ...page, visits: page.visits.filter(({ atMs }) => atMs > since) }
    }
    const read = await reading.readAll('history', keep, since)
    const pages = since === null ? read : read.filter(({ visits }) => visits.length > 0)
    if (format === 'csv') return historyCsv(pages)
    return listJson(pages, ({ url, title, visits }) => ({
      url,
      title,
      visits: visits.map(({ atMs, kind }) => ({ at: isoOf(atMs), kind })),
    }))
  },
  async passwords(reading, { format, since }) {
    const logins = await reading.readAll('passwords', (record) => record, since)
    return format === 'csv' ? passwordsCsv(logins) : jsonOf(logins.map(({ clear }) => clear))
  },
  async tabs(reading, { format, since }) {
    const devices = await reading.readAll('tabs', ({ clear, stored }) => ({
      device: readTabs(clear).device,
      synced: isoOf(stored.last_modified),
      tabs: readTabs(clear).tabs.filter(({ lastUsedMs }) => lastUsedMs >= (since ?? 0)),
    }))
    return tabFormats[format]!(devices)
  },
  async everything(reading, { since }) {
    const records: SyncRecord[] = []
    const { client } = reading.session
    for (const { name } of await client.collections()) {
      if (name === 'crypto') continue
      try {
        // Leaves out the encrypted payload.
        const light = (record: ReadableRecord) => ({
          ...record,
          stored: { ...record.stored, payload: undefined },
        })
        records.push(...(await readNext(client, reading.readAll(name, light, since))))
      } catch (error) {
        if (!(error instanceof ClientError) || error.field !== null) throw error
        reading.incomplete.set(name, error.message)
      }
    }
    return everythingJson(
      [...records, ...reading.unreadable],
      reading.incomplete,
      new Date(reading.session.host.now()),
    )
  },
}

const bookmarkFormats: Record<string, (tops: BookmarkNode[]) => string> = {
  html: bookmarksHtml,
  json: (tops) => jsonOf(plainBookmarks(tops)),
  csv: bookmarksCsv,
  urls: bookmarkUrls,
  markdown: bookmarksMarkdown,
}

interface DeviceTabs {
  device: string
  synced: string
  tabs: Tab[]
}

const tabFormats: Record<string, (devices: DeviceTabs[]) => string> = {
  json: (devices) =>
    jsonOf(
      devices.map(({ device, synced, tabs }) => {
        const plain = tabs.map(({ title, url, lastUsedMs }) => ({ title, url, used: isoOf(lastUsedMs) }))
        return { device, synced, tabs: plain }
      }),
    ),
  csv: (devices) => {
    const rows = devices.flatMap(({ device, tabs }) =>
      tabs.map(({ title, url, lastUsedMs }) => [...[device, title, url].map(noFormula), isoOf(lastUsedMs)]),
    )
    return csv([['device', 'title', 'url', 'used'], ...rows])
  },
  urls: (devices) => devices.flatMap(({ tabs }) => tabs.map(({ url }) => `${inOneLine(url)}\n`)).join(''),
  markdown: (devices) =>
    devices
      .map(({ device, tabs }) => {
        const links = tabs.map(({ title, url }) => markdownLink(title, url))
        return `# ${inMarkdown(device)}\n\n${links.map((link) => `- ${link}\n`).join('')}`
      })
      .join('\n'),
}

const itemsInPart = 1000

/** Formats a list like `jsonOf`, in parts because it may be long. */
function* listJson<Item>(items: Item[], shownAs: (item: Item) => unknown): Generator<string> {
  if (items.length === 0) return yield jsonOf([])
  for (let from = 0; from < items.length; from += itemsInPart) {
    const part = items.slice(from, from + itemsInPart).map(shownAs)
    // Without the brackets, which are on their own lines.
    yield (from === 0 ? '[\n' : ',\n') + jsonText(part, 2).slice(2, -2)
  }
  yield '\n]\n'
}

function jsonOf(value: unknown): string {
  return `${jsonText(value, 2)}\n`
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

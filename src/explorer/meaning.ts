import type { Entry } from './account.ts'

/** What a list shows of a record. */
export interface Item {
  entry: Entry
  title: string
  subtitle: string
  /** An address of the web, or null: only those become links. */
  url: string | null
  /** What a search looks through, in lower case. */
  text: string
}

/** A bookmark or a folder with its contents. */
export interface TreeNode extends Item {
  kind: 'folder' | 'bookmark' | 'separator'
  children: TreeNode[]
}

/** The visits to one page on one day. */
export interface Visit extends Item {
  atMs: number
  count: number
}

export interface Device {
  name: string
  kind: 'phone' | 'tablet' | 'desktop'
  about: string
  seenMs: number
  entry: Entry
  tabs: (Item & { usedMs: number })[]
}

type Fields = Record<string, unknown>

/** An address that may become a link: synced data may come from anybody. */
export function webAddress(value: unknown): string | null {
  return typeof value === 'string' && /^https?:\/\//i.test(value) ? value : null
}

export function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname.replace(/^www\./, '') : ''
}

/** The fields of a record, or none where it cannot be read or is a deletion. */
function fieldsOf({ clear }: Entry): Fields | null {
  return clear === null || clear.deleted === true ? null : clear
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function itemOf(entry: Entry, title: string, subtitle: string, address: unknown = null): Item {
  const url = webAddress(address)
  const text = `${title}\n${subtitle}\n${textOf(address)}`.toLowerCase()
  return { entry, title: title || textOf(address) || entry.wire.id, subtitle, url, text }
}

const rootTitles: Record<string, string> = {
  toolbar: 'Bookmarks Toolbar',
  menu: 'Bookmarks Menu',
  unfiled: 'Other Bookmarks',
  mobile: 'Mobile Bookmarks',
}

/**
 * Bookmarks as their folders have them: a folder's `children` decides about order. What no folder lists is shown in
 * the folder that it names, and what names none that exists at the end.
 */
export function bookmarkTree(entries: Entry[]): TreeNode[] {
  const nodes = new Map<string, { node: TreeNode; fields: Fields }>()
  for (const entry of entries) {
    const fields = fieldsOf(entry)
    if (fields) nodes.set(entry.wire.id, { node: nodeOf(entry, fields), fields })
  }
  const parentOf = new Map<string, string | null>()
  for (const id of ['places', ...Object.keys(rootTitles)]) parentOf.set(id, null)
  function place(parent: TreeNode, id: string): void {
    const child = nodes.get(id)
    if (child === undefined || parentOf.has(id) || isWithin(parent.entry.wire.id, id)) return
    parentOf.set(id, parent.entry.wire.id)
    parent.children.push(child.node)
  }
  // Two folders that hold each other would never end.
  function isWithin(inner: string, outer: string): boolean {
    let above: string | null = inner
    while (above !== null && above !== outer) above = parentOf.get(above) ?? null
    return above === outer
  }
  const folders = [...nodes.values()].filter(({ node }) => node.kind === 'folder')
  for (const { node, fields } of folders) {
    for (const id of Array.isArray(fields.children) ? fields.children : []) place(node, String(id))
  }
  for (const [id, { fields }] of nodes) {
    const parent = nodes.get(textOf(fields.parentid))
    if (parent?.node.kind === 'folder') place(parent.node, id)
  }
  const roots = Object.keys(rootTitles).flatMap((id) => nodes.get(id)?.node ?? [])
  const lost = [...nodes].filter(([id]) => !parentOf.has(id)).map(([, { node }]) => node)
  return [...roots, ...lost]
}

function nodeOf(entry: Entry, fields: Fields): TreeNode {
  const { id } = entry.wire
  const kind = fields.type === 'folder' || fields.type === 'separator' ? fields.type : 'bookmark'
  const title = textOf(fields.title) || rootTitles[id] || ''
  const address = textOf(fields.bmkUri)
  const tags = Array.isArray(fields.tags) ? fields.tags.filter((tag) => typeof tag === 'string') : []
  const subtitle = [hostOf(address), ...tags.map((tag) => `#${tag}`)].filter(Boolean).join('  ')
  return { ...itemOf(entry, title, subtitle, address), kind, children: [] }
}

/** How many bookmarks there are in a folder and all below. */
export function countBookmarks({ kind, children }: TreeNode): number {
  return kind === 'bookmark' ? 1 : children.reduce((sum, child) => sum + countBookmarks(child), 0)
}

/** All bookmarks of a tree, each with the path to it. */
export function flatten(nodes: TreeNode[], path = ''): Item[] {
  return nodes.flatMap((node) => {
    if (node.kind === 'folder') return flatten(node.children, path ? `${path} / ${node.title}` : node.title)
    return node.kind === 'bookmark'
      ? [{ ...node, subtitle: [path, node.subtitle].filter(Boolean).join('  ·  ') }]
      : []
  })
}

/** Visits by day, the latest first: each page once for every day on which it was visited. */
export function historyByDay(entries: Entry[]): { day: number; visits: Visit[] }[] {
  const days = new Map<number, Visit[]>()
  for (const entry of entries) {
    const fields = fieldsOf(entry)
    if (!fields) continue
    const item = itemOf(entry, textOf(fields.title), hostOf(textOf(fields.histUri)), fields.histUri)
    for (const [day, { atMs, count }] of visitsByDay(fields.visits, entry.wire.last_modified)) {
      const visits = days.get(day) ?? []
      if (visits.length === 0) days.set(day, visits)
      visits.push({ ...item, atMs, count })
    }
  }
  return [...days]
    .toSorted(([left], [right]) => right - left)
    .map(([day, visits]) => ({ day, visits: visits.toSorted((left, right) => right.atMs - left.atMs) }))
}

function visitsByDay(visits: unknown, modifiedMs: number): Map<number, { atMs: number; count: number }> {
  const found = new Map<number, { atMs: number; count: number }>()
  const moments = (Array.isArray(visits) ? visits : []).map((visit: Fields) => Number(visit?.date) / 1000)
  const known = moments.filter((moment) => moment > 0 && moment < 8.64e15)
  for (const atMs of known.length > 0 ? known : [modifiedMs]) {
    const day = new Date(atMs).setHours(0, 0, 0, 0)
    const { atMs: latest = 0, count = 0 } = found.get(day) ?? {}
    found.set(day, { atMs: Math.max(latest, atMs), count: count + 1 })
  }
  return found
}

/** Devices with their open tabs; one that was seen last comes first. */
export function devices(clients: Entry[], tabs: Entry[]): Device[] {
  const tabsOf = new Map(tabs.flatMap((entry) => (fieldsOf(entry) ? [[entry.wire.id, entry] as const] : [])))
  const known = clients.flatMap((entry) => {
    const fields = fieldsOf(entry)
    if (!fields) return []
    const own = tabsOf.get(entry.wire.id)
    tabsOf.delete(entry.wire.id)
    return [deviceOf(entry, fields, own)]
  })
  const withoutRecord = [...tabsOf.values()].map((entry) => deviceOf(entry, fieldsOf(entry)!, entry))
  return [...known, ...withoutRecord].toSorted((left, right) => right.seenMs - left.seenMs)
}

function deviceOf(entry: Entry, fields: Fields, tabs: Entry | undefined): Device {
  const form = `${textOf(fields.formfactor)} ${textOf(fields.type)}`
  const kind = form.includes('tablet') ? 'tablet' : /phone|mobile/.test(form) ? 'phone' : 'desktop'
  const version = textOf(fields.version)
  const about = [textOf(fields.os), version && `Firefox ${version}`].filter(Boolean).join(' · ')
  const open = tabs?.clear?.tabs
  return {
    name: textOf(fields.name) || textOf(fields.clientName) || entry.wire.id,
    kind,
    about,
    seenMs: Math.max(entry.wire.last_modified, tabs?.wire.last_modified ?? 0),
    entry,
    tabs: (Array.isArray(open) ? open : []).flatMap((tab: Fields) => tabOf(tabs!, tab)),
  }
}

function tabOf(entry: Entry, tab: Fields): (Item & { usedMs: number })[] {
  const address: unknown = Array.isArray(tab?.urlHistory) ? tab.urlHistory[0] : null
  if (typeof address !== 'string') return []
  const item = itemOf(entry, textOf(tab.title), hostOf(address), address)
  return [{ ...item, usedMs: (Number(tab.lastUsed) || 0) * 1000 }]
}

/** Logins by site. */
export function logins(entries: Entry[]): (Item & { username: string; password: string })[] {
  const found = entries.flatMap((entry) => {
    const fields = fieldsOf(entry)
    if (!fields) return []
    const username = textOf(fields.username)
    const site = textOf(fields.hostname)
    const item = itemOf(entry, hostOf(site) || site, username, site)
    return [{ ...item, username, password: textOf(fields.password) }]
  })
  return found.toSorted((left, right) => left.title.localeCompare(right.title))
}

/** What was typed into forms, by the name of the field. */
export function formEntries(entries: Entry[]): { field: string; items: Item[] }[] {
  const fields = new Map<string, Item[]>()
  for (const entry of entries) {
    const clear = fieldsOf(entry)
    if (!clear) continue
    const field = textOf(clear.name) || '(no name)'
    const items = fields.get(field) ?? []
    if (items.length === 0) fields.set(field, items)
    const item = itemOf(entry, textOf(clear.value), '')
    items.push({ ...item, text: `${field.toLowerCase()}\n${item.text}` })
  }
  return [...fields]
    .map(([field, items]) => ({ field, items: items.toSorted((a, b) => a.title.localeCompare(b.title)) }))
    .toSorted((left, right) => right.items.length - left.items.length)
}

/** Preferences by name, each with its value as JSON. */
export function preferences(entries: Entry[]): Item[] {
  const found = entries.flatMap((entry) => {
    const { value } = fieldsOf(entry) ?? {}
    if (typeof value !== 'object' || value === null) return []
    return Object.entries(value).map(([name, set]) => itemOf(entry, name, JSON.stringify(set) ?? ''))
  })
  return found.toSorted((left, right) => left.title.localeCompare(right.title))
}

/** Records of any other collection, named as well as can be. */
export function otherRecords(entries: Entry[]): Item[] {
  return entries.flatMap((entry) => {
    const fields = fieldsOf(entry)
    if (!fields) return []
    const inner = (
      typeof fields.entry === 'object' && fields.entry !== null ? fields.entry : fields
    ) as Fields
    const named = ['title', 'name', 'cc-name', 'addonID', 'extId', 'guid'].map((key) => textOf(inner[key]))
    const item = itemOf(entry, named.find(Boolean) ?? entry.wire.id, entry.wire.id)
    return [{ ...item, text: `${item.text}\n${JSON.stringify(inner).toLowerCase()}` }]
  })
}

/** Something that a record says, in words; a number is a moment, in ms since 1970. */
export interface Fact {
  name: string
  value: string | number
}

// How people call the fields that Firefox writes, and what its moments are counted in: parts of a millisecond, or many.
const factNames: Record<string, string> = {
  bmkUri: 'Address',
  histUri: 'Address',
  hostname: 'Site',
  username: 'User name',
  parentName: 'Folder',
  keyword: 'Keyword',
  os: 'System',
  version: 'Firefox',
  name: 'Name',
  value: 'Value',
}
const momentNames: Record<string, string> = {
  dateAdded: 'Added',
  timeCreated: 'Created',
  timeLastUsed: 'Last used',
  timePasswordChanged: 'Password changed',
}
const mostVisits = 8

/** What a record says, as people would say it, as far as that is known. */
export function factsOf(clear: Fields): Fact[] {
  const texts = Object.entries(factNames).map(([field, name]) => ({ name, value: textOf(clear[field]) }))
  const tags = Array.isArray(clear.tags) ? clear.tags.join(', ') : ''
  const moments = Object.entries(momentNames).map(([field, name]) => ({ name, value: Number(clear[field]) }))
  const visits = (Array.isArray(clear.visits) ? clear.visits : [])
    .map((visit: Fields) => Number(visit?.date) / 1000)
    .toSorted((left, right) => right - left)
    .slice(0, mostVisits)
    .map((value) => ({ name: 'Visited', value }))
  const isMoment = ({ value }: Fact) => Number(value) > 0 && Number(value) < 8.64e15
  return [
    ...texts.filter(({ value }) => value !== ''),
    ...(tags === '' ? [] : [{ name: 'Tags', value: tags }]),
    ...[...moments, ...visits].filter(isMoment),
  ]
}

/** The file that every browser imports. */
export function bookmarksFile(roots: TreeNode[]): string {
  const lines = [
    '<!DOCTYPE NETSCAPE-Bookmark-file-1>',
    '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">',
    '<TITLE>Bookmarks</TITLE>',
    '<H1>Bookmarks Menu</H1>',
    '',
    '<DL><p>',
  ]
  for (const root of roots) write(root, 1)
  return [...lines, '</DL>', ''].join('\n')

  function write(node: TreeNode, depth: number): void {
    const indent = '    '.repeat(depth)
    const clear: Fields = node.entry.clear ?? {}
    const added =
      Number(clear.dateAdded) > 0 ? ` ADD_DATE="${Math.floor(Number(clear.dateAdded) / 1000)}"` : ''
    if (node.kind === 'separator') lines.push(`${indent}<HR>`)
    if (node.kind === 'bookmark' && typeof clear.bmkUri === 'string') {
      const tags =
        Array.isArray(clear.tags) && clear.tags.length > 0 ? ` TAGS="${escape(clear.tags.join(','))}"` : ''
      const keyword = textOf(clear.keyword) && ` SHORTCUTURL="${escape(textOf(clear.keyword))}"`
      lines.push(
        `${indent}<DT><A HREF="${escape(clear.bmkUri)}"${added}${tags}${keyword}>${escape(node.title)}</A>`,
      )
    }
    if (node.kind !== 'folder') return
    const { id } = node.entry.wire
    const role =
      id === 'toolbar'
        ? ' PERSONAL_TOOLBAR_FOLDER="true"'
        : id === 'unfiled'
          ? ' UNFILED_BOOKMARKS_FOLDER="true"'
          : ''
    lines.push(`${indent}<DT><H3${added}${role}>${escape(node.title)}</H3>`, `${indent}<DL><p>`)
    for (const child of node.children) write(child, depth + 1)
    lines.push(`${indent}</DL><p>`)
  }
}

function escape(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  return text.replaceAll(/[&<>"]/g, (char) => names[char]!)
}

/** Everything that could be read, by collection, and the names of what could not. */
export function everythingFile(entries: Iterable<Entry>, exportedAt: Date): string {
  const collections: Record<string, unknown[]> = {}
  const unreadable: unknown[] = []
  for (const { collection, wire, clear, problem } of entries) {
    if (clear === null)
      unreadable.push({ collection, id: wire.id, last_modified: wire.last_modified, problem })
    else (collections[collection] ??= []).push({ ...clear, last_modified: wire.last_modified })
  }
  return JSON.stringify({ exported: exportedAt.toISOString(), collections, unreadable }, null, 2)
}

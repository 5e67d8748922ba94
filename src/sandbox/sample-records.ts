import { anything, sampleFolders, samplePages, type PageMaker } from './sample-pages.ts'
import type { SampleRandom } from './sample-random.ts'

const dayMs = 86_400_000

/** Different pages with their visits; visit times are microseconds, as in Firefox. */
export function sampleHistory(random: SampleRandom, count: number): ClearRecord[] {
  return samplePages(random, count).map(({ title, url: histUri }) => {
    let ageMs = random.below(dayMs / 4)
    const visits = Array.from({ length: random.below(4) + 1 }, () => {
      const visit = { ageMs, type: random.pick([1, 1, 1, 2, 5]) }
      ageMs += 1000 + random.below(5 * dayMs)
      return visit
    })
    const content = (uploadedAtMs: number) => ({
      histUri,
      title,
      visits: visits.map((visit) => ({ date: (uploadedAtMs - visit.ageMs) * 1000, type: visit.type })),
    })
    return { id: random.id(), content, sortindex: 100 * visits.length + random.below(2000) }
  })
}

/** The sample user's devices, the last synced one last: their `clients` records, and their open tabs under the same ids. */
export function sampleDevices(random: SampleRandom): { clients: ClearRecord[]; tabs: ClearRecord[] } {
  const devices = [
    { name: '居間のタブレット', type: 'mobile', formfactor: 'largetablet', os: 'iOS', open: 3 },
    { name: 'Pocket phone', type: 'mobile', formfactor: 'phone', os: 'Android', open: 6 },
    { name: 'Desk computer', type: 'desktop', formfactor: 'desktop', os: 'Linux', open: 14 },
  ].map((device) => ({ id: random.id(), fxaDeviceId: random.hex(16), ...device }))
  const clients = devices.map(({ id, name, type, formfactor, os, fxaDeviceId }) => {
    const about = { name, type, formfactor, os, fxaDeviceId }
    const content = { ...about, version: '153.0', protocols: ['1.5'], commands: [] }
    return { id, content: () => content }
  })
  const tabs = devices.map(({ id, name: clientName, open }) => {
    const pages = samplePages(random, open).map((page) => ({ ...page, ageMs: random.below(5 * dayMs) }))
    const content = (uploadedAtMs: number) => ({
      clientName,
      tabs: pages.map(({ title, url, ageMs }) => {
        return { title, urlHistory: [url], icon: '', lastUsed: Math.floor((uploadedAtMs - ageMs) / 1000) }
      }),
    })
    return { id, content }
  })
  return { clients, tabs }
}

/** Logins, whose ids are GUIDs in braces. */
export function samplePasswords(random: SampleRandom): ClearRecord[] {
  const hosts = ['mail.example.com', 'forum.example.net', 'shop.example.com', 'library.example.org']
  return hosts.map((host, index) => {
    const hostname = `https://${host}`
    const fields = { usernameField: 'username', passwordField: 'password' }
    const username = index % 2 === 0 ? 'sample.user' : 'sämple@example.org'
    const login = { hostname, formSubmitURL: hostname, httpRealm: null, username, ...fields }
    const password = `not-a-secret-${random.id()}`
    const ageMs = (1 + random.below(300)) * dayMs
    const content = (uploadedAtMs: number) => {
      const timeCreated = uploadedAtMs - ageMs
      const times = { timeCreated, timePasswordChanged: timeCreated, timeLastUsed: timeCreated + dayMs }
      return { ...login, password, ...times, timesUsed: 7 }
    }
    return { id: `{${random.guid()}}`, content }
  })
}

/** Entries of search fields and forms. Ids are plain base64, and some have a slash. */
export function sampleForms(random: SampleRandom): ClearRecord[] {
  const searches = [
    'tide tables',
    'rye bread recipe',
    'slide rule scales',
    'swift nesting box',
    'πυξίδα',
    'yoğurt',
  ]
  const entries = [
    ...searches.map((value) => ({ name: 'searchbar-history', value })),
    { name: 'address', value: '12 Example Street' },
    { name: 'city', value: 'Saint-Étienne' },
  ]
  return entries.map((entry, index) => {
    const id = random.bytes(12).toString('base64')
    return { id: index % 4 === 1 ? `${id.slice(0, 9)}/${id.slice(10)}` : id, content: () => entry }
  })
}

/** The one record of preferences, which has a fixed id. */
export function samplePreferences(): ClearRecord[] {
  const value = {
    'services.sync.prefs.sync.browser.startup.page': true,
    'browser.startup.page': 3,
    'services.sync.prefs.sync.layout.spellcheckDefault': true,
    'layout.spellcheckDefault': 1,
    'services.sync.prefs.sync.intl.accept_languages': true,
    'intl.accept_languages': 'en-GB, en, de',
  }
  // On every desktop, the record's id is the application id in base64url with padding.
  const id = Buffer.from('{ec8030f7-c20a-464f-9b0e-13a3a9e97384}').toString('base64url')
  return [{ id: id.padEnd(Math.ceil(id.length / 4) * 4, '='), content: () => ({ value }) }]
}

/** Plain records of the collection's kind. The first bookmark is a folder in `unfiled` with all others in it. */
export function seedRecords(random: SampleRandom, collection: string, count: number): ClearRecord[] {
  const ids = Array.from({ length: count }, () => random.id())
  const [folder, ...children] = ids
  return ids.map((id, index) => {
    const title = `Record ${index + 1}`
    const url = `https://seeded.example/${index + 1}`
    const contents: Record<string, ClearRecord['content']> = {
      bookmarks: (dateAdded) =>
        id === folder
          ? { type: 'folder', title: 'Seeded', parentid: 'unfiled', dateAdded, children }
          : { type: 'bookmark', title, bmkUri: url, parentid: folder, dateAdded, tags: [] },
      history: (uploadedAtMs) => ({ histUri: url, title, visits: seedVisits(uploadedAtMs) }),
      passwords: () => ({
        hostname: url,
        formSubmitURL: url,
        httpRealm: null,
        username: title,
        password: title,
      }),
      forms: () => ({ name: 'searchbar-history', value: title }),
      tabs: () => ({ clientName: title, tabs: [] }),
    }
    // `hasOwn`, because a collection may be named like a built-in property, such as `constructor`.
    const content = Object.hasOwn(contents, collection) ? contents[collection]! : () => ({ title })
    return { id, content }
  })
}

// A page that is visited often makes a record of 800 bytes, as in real accounts.
const visitsOfPage = 10

function seedVisits(uploadedAtMs: number) {
  const hourMs = 3_600_000
  return Array.from({ length: visitsOfPage }, (_, index) => ({
    date: (uploadedAtMs - index * hourMs) * 1000,
    type: 1,
  }))
}

/** A record before encryption, with the fields that stay visible to the server. */
export interface ClearRecord {
  id: string
  /** The contents to encrypt besides the id. No time in it may be later than the upload. */
  content: (uploadedAtMs: number) => Record<string, unknown>
  sortindex?: number
}

interface Folder {
  id: string
  title: string
  children: string[]
  /** The topics of its bookmarks. */
  topic: readonly PageMaker[]
  /** Addresses of its bookmarks, so that no page is bookmarked twice in one folder. */
  addresses: Set<string>
}

const recordsPerSeparator = 24

// The sortindex that Firefox gives folders, so that they arrive before their contents.
const folderSortindex = 1_000_000

/**
 * A tree of `count` records: folders in the four roots, separators and bookmarks; parents and children refer to each
 * other. Tags belong to the page, so all bookmarks of one address have the same.
 */
export function sampleBookmarks(random: SampleRandom, count: number): ClearRecord[] {
  const records: ClearRecord[] = []
  const folders: Folder[] = []
  const tagsOf = new Map<string, string[]>()
  for (const { id, title, folders: own } of sampleFolders()) {
    const top: Folder = { id, title, children: [], topic: anything, addresses: new Set() }
    folders.push(top)
    records.push(folderRecord(top, { id: 'places', title: '' }, 400 * dayMs))
    own.forEach(([title, topic], index) => {
      const folder: Folder = { id: random.id(), title, children: [], topic, addresses: new Set() }
      // Every third folder is inside the previous one.
      const parent = index % 3 === 2 ? (folders.at(-1) ?? top) : top
      parent.children.push(folder.id)
      folders.push(folder)
      records.push(folderRecord(folder, parent, random.below(400) * dayMs))
    })
  }
  while (records.length < count) {
    const isSeparator = records.length % recordsPerSeparator === 0
    const parent = random.pick(folders.filter(({ children }) => !isSeparator || children.length > 2))
    const record = isSeparator ? separatorRecord(random, parent) : bookmarkRecord(random, parent, tagsOf)
    parent.children.push(record.id)
    records.push(record)
  }
  return records
}

function folderRecord(folder: Folder, parent: Pick<Folder, 'id' | 'title'>, ageMs: number): ClearRecord {
  const { id, title, children } = folder
  const place = { parentid: parent.id, parentName: parent.title }
  const content = (uploadedAtMs: number) => {
    return { type: 'folder', title, ...place, dateAdded: uploadedAtMs - ageMs, children }
  }
  return { id, content, sortindex: folderSortindex }
}

function separatorRecord(random: SampleRandom, parent: Folder): ClearRecord {
  const place = { parentid: parent.id, parentName: parent.title, pos: parent.children.length }
  const ageMs = random.below(900) * dayMs
  const content = (uploadedAtMs: number) => {
    return { type: 'separator', ...place, dateAdded: uploadedAtMs - ageMs }
  }
  return { id: random.id(), content, sortindex: 150 }
}

function bookmarkRecord(random: SampleRandom, parent: Folder, tagsOf: Map<string, string[]>): ClearRecord {
  let page = random.pick(parent.topic)(random)
  while (parent.addresses.has(page.url)) page = random.pick(parent.topic)(random)
  const { title, url: bmkUri } = page
  parent.addresses.add(bmkUri)
  const tags = tagsOf.get(bmkUri) ?? sampleTags(random)
  tagsOf.set(bmkUri, tags)
  const ageMs = random.below(900) * dayMs
  const place = { parentid: parent.id, parentName: parent.title }
  const content = (uploadedAtMs: number) => {
    const dateAdded = uploadedAtMs - ageMs
    return { type: 'bookmark', title, bmkUri, ...place, dateAdded, tags, keyword: null, loadInSidebar: false }
  }
  return { id: random.id(), content, sortindex: random.below(2000) + 150 }
}

function sampleTags(random: SampleRandom): string[] {
  const names = ['read later', 'reference', 'todo', 'video', 'été']
  return names.filter(() => random.below(12) === 0)
}

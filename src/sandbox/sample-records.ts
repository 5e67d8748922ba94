import { samplePage, type ClearRecord, type SamplePage } from './sample-bookmarks.ts'
import type { SampleRandom } from './sample-random.ts'

const dayMs = 86_400_000

/** Pages with the visits to them, no page twice; times of visits are microseconds, as Firefox has them. */
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

/** The devices of the sample user: their `clients` records, and the tabs open on each, which share its id. */
export function sampleDevices(random: SampleRandom): { clients: ClearRecord[]; tabs: ClearRecord[] } {
  const devices = [
    { name: 'Desk computer', type: 'desktop', formfactor: 'desktop', os: 'Linux', open: 14 },
    { name: 'Pocket phone', type: 'mobile', formfactor: 'phone', os: 'Android', open: 6 },
    { name: '居間のタブレット', type: 'mobile', formfactor: 'largetablet', os: 'iOS', open: 3 },
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

/** What was typed into search fields and forms. Ids are plain base64, and some have a slash. */
export function sampleForms(random: SampleRandom): ClearRecord[] {
  const searches = [
    'tide tables',
    'rye bread recipe',
    'slide rule scales',
    'swift nesting box',
    'πυξίδα',
    'çay',
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
  // The application's own id, in base64url with padding, names the record on every desktop.
  const id = Buffer.from('{ec8030f7-c20a-464f-9b0e-13a3a9e97384}').toString('base64url')
  return [{ id: id.padEnd(Math.ceil(id.length / 4) * 4, '='), content: () => ({ value }) }]
}

function samplePages(random: SampleRandom, count: number): SamplePage[] {
  const pages = new Map<string, SamplePage>()
  while (pages.size < count) {
    const page = samplePage(random)
    if (!pages.has(page.url)) pages.set(page.url, page)
  }
  return [...pages.values()]
}

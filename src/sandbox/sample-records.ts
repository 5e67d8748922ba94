import type { ClearRecord } from './sample-bookmarks.ts'
import { samplePage } from './sample-pages.ts'
import type { SampleRandom } from './sample-random.ts'

const dayMs = 86_400_000

/** Pages with the visits to them; times of visits are microseconds, as Firefox has them. */
export function sampleHistory(random: SampleRandom, count: number, nowMs: number): ClearRecord[] {
  return Array.from({ length: count }, () => {
    const { title, url: histUri } = samplePage(random)
    const visits = Array.from({ length: random.below(4) + 1 }, () => ({
      date: (nowMs - random.below(60 * dayMs)) * 1000,
      type: random.pick([1, 1, 1, 2, 5]),
    }))
    const frecency = 100 * visits.length + random.below(2000)
    return { clear: { id: random.id(), histUri, title, visits }, sortindex: frecency }
  })
}

/** The devices of the sample user: their `clients` records, and the tabs open on each, which share its id. */
export function sampleDevices(
  random: SampleRandom,
  nowMs: number,
): { clients: ClearRecord[]; tabs: ClearRecord[] } {
  const devices = [
    { id: random.id(), name: 'Desk computer', type: 'desktop', os: 'Linux', tabs: 14 },
    { id: random.id(), name: 'Pocket phone', type: 'mobile', os: 'Android', tabs: 6 },
  ]
  const clients = devices.map(({ id, name, type, os }) => {
    const about = { id, name, type, os, version: '128.0', protocols: ['1.5'], commands: [] }
    return {
      clear: { ...about, formfactor: type === 'mobile' ? 'phone' : 'desktop', fxaDeviceId: random.guid() },
    }
  })
  const tabs = devices.map((device) => {
    const open = Array.from({ length: device.tabs }, () => {
      const { title, url } = samplePage(random)
      const lastUsed = Math.floor((nowMs - random.below(5 * dayMs)) / 1000)
      return { title, urlHistory: [url], icon: '', lastUsed }
    })
    return { clear: { id: device.id, clientName: device.name, tabs: open } }
  })
  return { clients, tabs }
}

/** Logins, whose ids are GUIDs in braces. */
export function samplePasswords(random: SampleRandom, nowMs: number): ClearRecord[] {
  return ['mail.example.com', 'forum.example.net', 'shop.example.com', 'library.example.org'].map((host) => {
    const [hostname, changed] = [`https://${host}`, nowMs - random.below(300) * dayMs]
    const fields = { usernameField: 'username', passwordField: 'password' }
    const times = {
      timeCreated: changed,
      timeLastUsed: changed + dayMs,
      timePasswordChanged: changed,
      timesUsed: 7,
    }
    const login = { username: 'sample.user', password: `not-a-secret-${random.id()}` }
    const id = `{${random.guid()}}`
    return {
      clear: { id, hostname, formSubmitURL: hostname, httpRealm: null, ...login, ...fields, ...times },
    }
  })
}

/** What was typed into search fields and forms. */
export function sampleForms(random: SampleRandom): ClearRecord[] {
  const typed = [
    'tide tables',
    'rye bread recipe',
    'slide rule scales',
    'swift nesting box',
    '12 Example Street',
  ]
  return typed.map((value, index) => {
    return { clear: { id: random.id(), name: index < 4 ? 'searchbar-history' : 'address', value } }
  })
}

/** The one record of preferences, which has a fixed id. */
export function samplePreferences(): ClearRecord[] {
  const value = {
    'services.sync.prefs.sync.browser.startup.page': true,
    'browser.startup.page': 3,
    'browser.search.region': 'XX',
    'layout.spellcheckDefault': 1,
  }
  // The application's own id, in base64, names the record on every desktop.
  const id = Buffer.from('{ec8030f7-c20a-464f-9b0e-13a3a9e97384}').toString('base64url')
  return [{ clear: { id, value } }]
}

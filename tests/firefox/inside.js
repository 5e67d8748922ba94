// Functions that run inside Firefox, with all its privileges. Each call evaluates this file again.

function load(path) {
  return ChromeUtils.importESModule(`resource://${path}.sys.mjs`)
}

const { setTimeout } = load('gre/modules/Timer')
const { Weave } = load('services-sync/main')
const { PlacesUtils } = load('gre/modules/PlacesUtils')
const { PlacesSyncUtils } = load('gre/modules/PlacesSyncUtils')
const { FormHistory } = load('gre/modules/FormHistory')

/** Signs in as the account server's user, with the keys that a password would have produced. */
async function signIn({ email, sessionToken, keyId, syncKey }) {
  // The bookmarks of every new profile.
  await PlacesUtils.bookmarks.eraseEverything()
  const { getFxAccountsSingleton } = load('gre/modules/FxAccounts')
  const bytes = syncKey.match(/../g).map((pair) => Number.parseInt(pair, 16))
  const k = btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
  const scopedKeys = { 'https://identity.mozilla.com/apps/oldsync': { kty: 'oct', kid: keyId, k } }
  const account = { uid: 'ab'.repeat(16), sessionToken, email, verified: true, scopedKeys }
  await getFxAccountsSingleton()._internal.setSignedInUser(account)
  await Weave.Service.promiseInitialized
  await Weave.Service.configure()
}

/** Types a program into the Browser Console and presses Enter; resolves to its output, or to why it is blocked. */
async function typeIntoConsole(program) {
  const { require } = load('devtools/shared/loader/Loader')
  const {
    BrowserConsoleManager,
  } = require('resource://devtools/client/webconsole/browser-console-manager.js')
  const { wrapper } = (await BrowserConsoleManager.openBrowserConsoleOrFocus()).ui
  const messages = () => [...wrapper.getStore().getState().messages.mutableMessagesById.values()]
  const before = messages().length
  await wrapper.dispatchEvaluateExpression(program)
  for (;;) {
    const added = messages().slice(before)
    const refused = added.find(({ type, level }) => type === 'result' && level === 'error')
    if (refused) return { printed: null, refused: refused.parameters[0].getGrip().preview.message }
    const printed = added.find(
      ({ source, type, parameters }) => source === 'console-api' && type === 'log' && parameters,
    )
    if (printed) return { printed: printed.parameters[0], refused: null }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Syncs everything, and returns the errors, what could not be applied or sent, and inconsistencies. */
async function sync() {
  const failed = {}
  const problems = []
  const listen = (subject, topic, engine) => {
    const counts = subject?.wrappedJSObject?.object ?? subject?.wrappedJSObject ?? subject
    if (topic === 'weave:engine:validate:finish') problems.push(...(counts?.problems ?? []))
    else if (counts?.failed) failed[`${engine} ${topic.split(':').pop()}`] = counts.failed
  }
  const topics = ['weave:engine:sync:applied', 'weave:engine:sync:uploaded', 'weave:engine:validate:finish']
  // Firefox syncs by itself once it is signed in, and two syncs can't run at once.
  while (Weave.Service.locked) await new Promise((resolve) => setTimeout(resolve, 20))
  for (const topic of topics) Services.obs.addObserver(listen, topic)
  try {
    await Weave.Service.sync({ why: 'test' })
  } finally {
    for (const topic of topics) Services.obs.removeObserver(listen, topic)
  }
  const { service, sync: outcome, engines } = Weave.Status
  return { service, outcome, engines: { ...engines }, failed, problems }
}

/** All bookmarks, folders and separators below the four synced roots, in the terms of records. */
async function bookmarks() {
  const found = []
  const visit = (item, parentid) => {
    const id = PlacesSyncUtils.bookmarks.guidToRecordId(item.guid)
    const types = { 'text/x-moz-place-container': 'folder', 'text/x-moz-place-separator': 'separator' }
    const type = types[item.type] ?? 'bookmark'
    const ids = item.children?.map(({ guid }) => PlacesSyncUtils.bookmarks.guidToRecordId(guid))
    const children = ids ?? (type === 'folder' ? [] : undefined)
    const dateAdded = Math.floor(item.dateAdded / 1000)
    const tags = item.tags?.split(',').toSorted()
    const { title, uri: bmkUri, keyword } = item
    found.push({ id, type, title, bmkUri, tags, keyword, parentid, children, dateAdded })
    for (const child of item.children ?? []) visit(child, id)
  }
  for (const root of ['menu', 'toolbar', 'unfiled', 'mobile']) {
    visit(await PlacesUtils.promiseBookmarksTree(PlacesSyncUtils.bookmarks.recordIdToGuid(root)), 'places')
  }
  return found
}

/** Adds an item at the end of a folder; resolves to its id. */
async function addBookmark(parentid, { type = 'bookmark', title, url, tags, keyword }) {
  const parentGuid = PlacesSyncUtils.bookmarks.recordIdToGuid(parentid)
  const code = PlacesUtils.bookmarks[`TYPE_${type.toUpperCase()}`]
  const { guid } = await PlacesUtils.bookmarks.insert({ parentGuid, type: code, title, url })
  if (tags) PlacesUtils.tagging.tagURI(Services.io.newURI(url), tags)
  if (keyword) await PlacesUtils.keywords.insert({ url, keyword })
  return guid
}

async function removeBookmark(guid) {
  await PlacesUtils.bookmarks.remove(guid)
}

/** Imitates "Import Bookmarks from HTML", into a profile without bookmarks. */
async function importBookmarks(path) {
  await PlacesUtils.bookmarks.eraseEverything()
  await load('gre/modules/BookmarkHTMLUtils').BookmarkHTMLUtils.importFromFile(path, { replace: false })
}

/** Imitates "Restore", which replaces all bookmarks; resolves to the number of bookmarks. */
function restoreBookmarks(path) {
  return load('gre/modules/BookmarkJSONUtils').BookmarkJSONUtils.importFromFile(path, { replace: true })
}

async function renameBookmark(guid, title) {
  await PlacesUtils.bookmarks.update({ guid, title })
}

async function moveBookmark(guid, parentid) {
  const parentGuid = PlacesSyncUtils.bookmarks.recordIdToGuid(parentid)
  await PlacesUtils.bookmarks.update({ guid, parentGuid, index: PlacesUtils.bookmarks.DEFAULT_INDEX })
}

/** Sets the tags of an address. */
function tagAddress(url, tags) {
  const uri = Services.io.newURI(url)
  PlacesUtils.tagging.untagURI(uri, null)
  PlacesUtils.tagging.tagURI(uri, tags)
}

/** All visited pages with their visits in microseconds, newest first. */
async function history() {
  const database = await PlacesUtils.promiseDBConnection()
  const rows = await database.execute(`
    SELECT h.guid, h.url, h.title, v.visit_date AS date, v.visit_type AS type
    FROM moz_places h JOIN moz_historyvisits v ON v.place_id = h.id ORDER BY v.visit_date DESC`)
  const pages = new Map()
  for (const row of rows) {
    const [id, histUri, title, date, type] = ['guid', 'url', 'title', 'date', 'type'].map((name) =>
      row.getResultByName(name),
    )
    if (!pages.has(id)) pages.set(id, { id, histUri, title: title ?? '', visits: [] })
    pages.get(id).visits.push({ date, type })
  }
  return [...pages.values()]
}

async function visit(url, title) {
  await PlacesUtils.history.insert({ url, title, visits: [{ date: new Date() }] })
}

async function passwords() {
  const logins = await Services.logins.getAllLogins()
  // They include the account itself.
  const saved = logins.filter(({ origin }) => origin.startsWith('http'))
  return saved.map(({ guid, origin, username, password }) => ({
    id: guid,
    hostname: origin,
    username,
    password,
  }))
}

async function addPassword(origin, username, password) {
  const login = Cc['@mozilla.org/login-manager/loginInfo;1'].createInstance(Ci.nsILoginInfo)
  login.init(origin, origin, null, username, password, 'user', 'word')
  await Services.logins.addLoginAsync(login)
}

function removeAllPasswords() {
  const { logins } = Services
  // Firefox 140 has only the second one.
  return logins.removeAllUserFacingLoginsAsync?.() ?? logins.removeAllUserFacingLogins()
}

/** Imitates "Import from a File", without existing passwords; resolves to the result of each. */
async function importPasswords(path) {
  await removeAllPasswords()
  const report = await load('gre/modules/LoginCSVImport').LoginCSVImport.importFromCSV(path)
  return report.map(({ result }) => result)
}

async function forms() {
  const found = await FormHistory.search(['guid', 'fieldname', 'value'], {})
  return found.map(({ guid, fieldname, value }) => ({ id: guid, name: fieldname, value }))
}

/** Types into a form until Firefox has created an id with a slash; resolves to that id. */
async function typeUntilSlash(fieldname) {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const value = `typed ${attempt}`
    await FormHistory.update({ op: 'add', fieldname, value })
    const [{ guid }] = await FormHistory.search(['guid'], { fieldname, value })
    if (guid.includes('/')) return guid
  }
  throw new Error('No id of 300 has a slash')
}

/** Opens a tab and waits until it has its title. */
async function openTab(url, title) {
  const { gBrowser } = Services.wm.getMostRecentWindow('navigator:browser')
  const triggeringPrincipal = Services.scriptSecurityManager.getSystemPrincipal()
  const tab = gBrowser.addTab(url, { triggeringPrincipal })
  // History gets the title later; synced earlier, the page would never get one.
  const isKnown = async () => tab.label === title && (await PlacesUtils.history.fetch(url))?.title === title
  while (!(await isKnown())) await new Promise((resolve) => setTimeout(resolve, 20))
}

/** The tabs of other devices, by device name. */
async function tabsOfOthers() {
  const { SyncedTabs } = load('services-sync/SyncedTabs')
  const clients = await SyncedTabs.getTabClients()
  return Object.fromEntries(clients.map(({ name, tabs }) => [name, tabs.map(({ url }) => url).toSorted()]))
}

function preference(name) {
  const { prefs } = Services
  const readers = {
    [prefs.PREF_INT]: 'getIntPref',
    [prefs.PREF_BOOL]: 'getBoolPref',
    [prefs.PREF_STRING]: 'getStringPref',
  }
  return prefs[readers[prefs.getPrefType(name)]](name)
}

/** The state after losing a storage and a profile: an account without data, and a Firefox without any. */
async function loseEverything() {
  await Weave.Service.wipeServer()
  await PlacesUtils.bookmarks.eraseEverything()
  await PlacesUtils.history.clear()
  await FormHistory.update({ op: 'remove' })
  await removeAllPasswords()
  await Weave.Service.resetClient()
}

function localDevice() {
  return Weave.Service.clientsEngine.localID
}

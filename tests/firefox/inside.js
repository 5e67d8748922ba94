// Functions that run inside Firefox, with all its privileges.

function load(path) {
  return ChromeUtils.importESModule(`resource://${path}.sys.mjs`)
}

const { setTimeout } = load('gre/modules/Timer')
const { Weave } = load('services-sync/main')
const { PlacesUtils } = load('gre/modules/PlacesUtils')
const { FormHistory } = load('gre/modules/FormHistory')

/** Signs in as the account server's user would be signed in, with the keys that a password would have given. */
async function signIn({ email, keyId, syncKey }) {
  const { getFxAccountsSingleton } = load('gre/modules/FxAccounts')
  const bytes = syncKey.match(/../g).map((pair) => Number.parseInt(pair, 16))
  const k = btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
  const scopedKeys = { 'https://identity.mozilla.com/apps/oldsync': { kty: 'oct', kid: keyId, k } }
  const account = { uid: 'ab'.repeat(16), sessionToken: 'cd'.repeat(32), email, verified: true, scopedKeys }
  await getFxAccountsSingleton()._internal.setSignedInUser(account)
  await Weave.Service.promiseInitialized
  await Weave.Service.configure()
}

/** Syncs everything, and tells what came of it: trouble, and per engine what could not be applied or sent. */
async function sync() {
  const failed = {}
  const listen = (subject, topic, engine) => {
    const counts = subject?.wrappedJSObject ?? subject
    if (counts?.failed || counts?.newFailed) failed[`${engine} ${topic.split(':').pop()}`] = counts.failed
  }
  const topics = ['weave:engine:sync:applied', 'weave:engine:sync:uploaded']
  for (const topic of topics) Services.obs.addObserver(listen, topic)
  // Firefox syncs by itself once it is signed in; two syncs at once don't go.
  while (Weave.Service.locked) await new Promise((resolve) => setTimeout(resolve, 20))
  try {
    await Weave.Service.sync({ why: 'test' })
  } finally {
    for (const topic of topics) Services.obs.removeObserver(listen, topic)
  }
  const { service, sync: outcome, login, engines } = Weave.Status
  return { service, outcome, login, engines: { ...engines }, failed }
}

async function logs() {
  const dir = PathUtils.join(PathUtils.profileDir, 'weave', 'logs')
  const out = []
  for (const f of await IOUtils.getChildren(dir, {ignoreAbsent: true})) out.push(await IOUtils.readUTF8(f))
  return out.join('\n======\n')
}

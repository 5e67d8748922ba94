/**
 * A bucket of Sync Bridge, read and written with nothing but fetch. The environment names it as the file does that
 * `sync-bridge sandbox` prints the name of: BRIDGE_URL, BUCKET, BEARER_TOKEN, KEY_ID.
 */

const always = ['BRIDGE_URL', 'BUCKET', 'BEARER_TOKEN', 'KEY_ID']

/**
 * What is known of a user, checked: throws an error that names everything that is missing. The address may end in a
 * slash or in /v1.
 */
export function readUser(values, more = []) {
  const missing = [...always, ...more].filter((name) => !values[name])
  if (missing.length > 0) {
    throw new Error(`Set ${missing.join(', ')}: docs/connect.md tells where to get them`)
  }
  const address = values.BRIDGE_URL.replace(/\/+$/, '').replace(/\/v1$/, '')
  return { ...values, BRIDGE_URL: address }
}

/** Asks for a path below the bucket; follows Next-Page to the end of a list. Answers the records and the last ETag. */
export async function list(user, path) {
  const found = []
  let etag = null
  for (let url = `${user.BRIDGE_URL}/v1/buckets/${user.BUCKET}${path}`; url !== null;) {
    const { body, headers } = await ask(user, url)
    // One by one: a call takes only so many arguments.
    for (const record of [body.data].flat()) found.push(record)
    etag = headers.get('ETag')
    url = headers.get('Next-Page')
  }
  return { records: found, etag }
}

/** How many records a collection has, and its ETag. */
export async function count(user, collection) {
  const url = `${user.BRIDGE_URL}/v1/buckets/${user.BUCKET}/collections/${collection}/records`
  const { headers } = await ask(user, url, { method: 'HEAD' })
  return { total: Number(headers.get('Total-Records')), etag: headers.get('ETag') }
}

/** Sends many requests, which are carried out all or none. Paths are below the bucket. Answers their responses. */
export async function batch(user, requests) {
  const below = requests.map((request) => ({ ...request, path: `/buckets/${user.BUCKET}${request.path}` }))
  const { body } = await ask(user, `${user.BRIDGE_URL}/v1/batch`, {
    method: 'POST',
    body: JSON.stringify({ requests: below }),
  })
  return body.responses
}

/**
 * One request. Throws what the answer says went wrong. Where the user has a `renew`, a token that has ended is renewed first. A 503 or 429
 * is asked again after the pause that it names, three times at most; so a write needs a condition, which tells whether it was
 * carried out before.
 */
export async function ask(user, url, init = {}) {
  let answer = await sendRenewed(user, url, init)
  for (let repeats = 0; repeats < 3 && (answer.status === 503 || answer.status === 429); repeats++) {
    const seconds = Number(answer.headers.get('Retry-After') ?? 1)
    // A long pause, or a date, is for a person to wait for.
    if (!(seconds <= 60)) break
    console.error(`The bridge answers ${answer.status}: asking again in ${seconds} s`)
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    answer = await sendRenewed(user, url, init)
  }
  const text = await answer.text().catch(() => {
    throw lost(init, 'The answer broke off: the storage failed, or the connection. Ask again')
  })
  const body = parse(text)
  if (answer.ok && (body !== null || init.method === 'HEAD')) return { body, headers: answer.headers }
  if (answer.status === 401 && body?.errno === 105)
    throw new Error(`${body.message}. Where a token has ended, docs/connect.md tells how to get a new one`)
  throw new Error(
    `The bridge answers ${answer.status}: ${body?.message ?? 'and no JSON, is this its address?'}`,
  )
}

async function sendRenewed(user, url, init) {
  const answer = await send(user, url, init)
  if (answer.status !== 401 || !user.renew) return answer
  await user.renew()
  return send(user, url, init)
}

function send({ BEARER_TOKEN, KEY_ID }, url, init) {
  const headers = { Authorization: `Bearer ${BEARER_TOKEN}`, 'X-KeyID': KEY_ID }
  if (init.body) headers['Content-Type'] = 'application/json'
  return fetch(url, { ...init, headers }).catch(() => {
    throw lost(init, `Nobody answers at ${new URL(url).origin}: is the bridge running?`)
  })
}

/** What is thrown where an answer is lost: what was sent may have been carried out. */
function lost({ body }, message) {
  return new Error(
    body ? 'No answer came: nobody knows whether this was written. Look before you repeat it' : message,
  )
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** A text for a terminal. Titles come from web pages: control characters in them must not reach it. */
export function printable(text) {
  return String(text).replaceAll(/[\p{Cc}\u202a-\u202e\u2066-\u2069]+/gu, ' ')
}

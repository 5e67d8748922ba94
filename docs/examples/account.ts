/**
 * The account that a program works for, with an access token that renews itself.
 *
 * Its values come from the environment, or, if there is no BUCKET, from a file of lines NAME=value: the one that ACCOUNT_FILE names,
 * else `account.env` in the current folder. With REFRESH_TOKEN, TOKEN_ENDPOINT and CLIENT_ID among them (docs/connect.md, "For
 * something that runs by itself") a token that has ended is replaced by a new one, in the file, too. Two programs may do so at the
 * same time: each gets a token of its own, both are good, and the file has one of them.
 */
import { randomUUID } from 'node:crypto'
import { readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { readUser, type User } from './bridge.js'

const scope = 'https://identity.mozilla.com/apps/oldsync'

/** The account, checked: throws an error that names what is missing, of `more` names, too. */
export function readAccount(more: string[] = []): User {
  const path = process.env.ACCOUNT_FILE || 'account.env'
  const user = readUser(process.env.BUCKET ? process.env : readValues(path), more)
  if (!user.REFRESH_TOKEN || !user.TOKEN_ENDPOINT || !user.CLIENT_ID) return user
  let renewing: Promise<void> | null = null
  async function renew(): Promise<void> {
    user.BEARER_TOKEN = await askForToken(user)
    keep(path, user)
  }
  // Requests that are refused together wait for one new token.
  user.renew = () => {
    renewing ??= renew().finally(() => (renewing = null))
    return renewing
  }
  return user
}

async function askForToken({ TOKEN_ENDPOINT, CLIENT_ID, REFRESH_TOKEN }: User): Promise<string> {
  const wanted = { grant_type: 'refresh_token', client_id: CLIENT_ID, refresh_token: REFRESH_TOKEN, scope }
  const answer = await fetch(TOKEN_ENDPOINT!, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...wanted, ttl: 3600 }),
    // A refresh token goes nowhere else.
    redirect: 'error',
  }).catch(() => {
    throw new Error(`Cannot renew the access token: nobody answers at ${new URL(TOKEN_ENDPOINT!).origin}`)
  })
  const body = await answer.json().catch(() => null)
  // The token becomes a line of a file that shells read.
  if (answer.ok && /^[\w.~+/=-]+$/.test(body?.access_token)) return body.access_token
  // Such a check stands in front of Mozilla's, and wants a browser.
  if (answer.status === 406 && body === null) {
    throw new Error(
      'Cannot renew the access token: the account server lets only browsers in from here (406). Try again later or ' +
        'from another network, or get new values with the recipe of docs/connect.md',
    )
  }
  // The account server's own endpoint, and that of its OAuth service: each numbers its errors itself.
  if ((answer.status === 401 && body?.errno === 110) || (answer.status === 400 && body?.errno === 108)) {
    throw new Error(
      'The refresh token was revoked, or the password was changed: get new values with the recipe of docs/connect.md',
    )
  }
  throw new Error(
    `Cannot renew the access token: the account server answers ${answer.status} ${body?.message ?? ''}`.trimEnd(),
  )
}

/** Writes the token into the file that the account came from; its other lines stay as they are now. */
function keep(path: string, { REFRESH_TOKEN, BEARER_TOKEN }: User): void {
  // Somebody may have put another account's values there meanwhile.
  if (readValues(path).REFRESH_TOKEN !== REFRESH_TOKEN) return
  const file = realpathSync(path)
  const draft = `${file}.${randomUUID()}`
  try {
    const text = readFileSync(file, 'utf8').replace(/^((?:export )?BEARER_TOKEN=).*$/m, `$1${BEARER_TOKEN}`)
    writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush: true })
    renameSync(draft, file)
  } catch (error) {
    rmSync(draft, { force: true })
    console.error(`The new access token is not in ${path}, the next run will need another: ${String(error)}`)
  }
}

/** The lines NAME=value of a file, none where there is no file. Values may be in quotes, lines may begin with `export`. */
function readValues(path: string): Record<string, string> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return {}
  }
  const lines = text.matchAll(/^(?:export )?([A-Z_]+)=(["']?)(.*)\2\r?$/gm)
  return Object.fromEntries(Array.from(lines, ([, name, , value]) => [name, value]))
}

import recipe from '../../../docs/examples/firefox-console.txt' with { type: 'text' }
import { bucketOf, checkAccount, parseAccount, type Account } from '../../client/account.ts'
import { isReadable, type ReadableRecord } from '../../client/collection.ts'
import { ClientError } from '../../client/errors.ts'
import { formerKeysAfter, isSameKeyId } from '../../client/former-keys.ts'
import { isRenewable, revokeRefreshToken } from '../../client/token.ts'
import { describeCommand, type CommandFactory } from '../command.ts'
import {
  accountPath,
  readAccountFile,
  readAccountFileIfAny,
  removeAccountFile,
  requireForms,
  writeAccountFile,
} from './account-file.ts'
import { chooseBridge, requireSafeServers, type AccountOptions } from './bridge-choice.ts'
import { forgetUndo } from './undo-entries.ts'
import { accountOption, caOption, describeAccountCommand } from './options.ts'
import { printable } from '../../client/safe-text.ts'
import { countOf } from './phrases.ts'
import { useProxy } from './proxy.ts'
import { trustingFetch, withBridge, type Session } from './session.ts'
import { askOnTerminal, readPastedLines } from './terminal.ts'
import { textOf } from '../../client/fields.ts'
import { removeAbandonedDrafts } from './drafts.ts'
import type { Host } from '../host.ts'

export const connectCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'connect',
    'connect your account, with the values that your Firefox prints',
    'Shows the recipe to paste into Firefox, reads its output from the terminal or standard input, tests the values, and ' +
      'saves them in a file that only you can read, with the bridge of --bridge.',
  )
    .option('--token-server <URL>', 'your own token server; default: the one that Firefox prints')
    .action(perform((host, options) => connect(options, host)))

/** Reads the account's values, tests each of them, and saves them. */
async function connect(given: AccountOptions & { tokenServer?: string }, host: Host): Promise<number> {
  const { tokenServer } = given
  let text: string | null = ''
  try {
    const path = accountPath(given.account, host)
    removeAbandonedDrafts(path, host)
    const former = readAccountFileIfAny(path, host)
    text = await readPastedLines(host, () => void host.stderr.write(instructions()), hasEverything)
    if (text === null) return 1
    const pasted = parseAccount(text)
    if (Object.keys(pasted).length === 0)
      throw new ClientError('No line has the form NAME=value: paste the lines that Firefox prints')
    const bridgeUrl = pasted.bridgeUrl ?? former.bridgeUrl
    const bridge = chooseBridge({ bridgeUrl }, given, path, host)
    const checked = checkAccount({
      ...pasted,
      bridgeUrl: bridge ?? '',
      formerKeys: '',
      ...(tokenServer && { tokenServerUrl: tokenServer }),
    })
    if (checked.syncKey === '')
      throw new ClientError('Missing: copy all lines that Firefox prints', { field: 'syncKey' })
    requireForms(checked)
    const tokenServerPlace = tokenServer ? '--token-server' : 'TOKEN_SERVER_URL, or use --token-server'
    const connection = { account: checked, bridge, given, tokenServerPlace }
    return await withBridge(connection, host, {}, async (session) => {
      await describe(session)
      const isReset = await followsReset(former, checked, path, session)
      const formerKeys = formerKeysAfter(former, checked.keyId)
      writeAccountFile(path, { ...checked, token: session.client.account.token, formerKeys }, host)
      session.tell(
        `Connected. The account is saved in ${path}. Anyone with this file can read everything you sync.`,
      )
      if (isReset) session.tell(`It also keeps the key of ${former.keyId}, for older backups.`)
      await revokeReplaced(former, checked, session)
      if (!isRenewable(checked)) session.tell(endsSoon)
      session.tell(nextSteps)
      return 0
    })
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    host.stderr.write(`sync-bridge: ${fieldPrefix(error)}${printable(error.message)}\n`)
    host.stderr.write('Nothing was saved.\n')
    return 1
  }
}

/**
 * Whether the account has another key than the file, because its password was reset. Throws `ClientError` if it is another account, whose
 * keys don't belong in this file.
 */
async function followsReset(
  former: Partial<Account>,
  { keyId }: Account,
  path: string,
  { tell }: Session,
): Promise<boolean> {
  if (!former.syncKey || !former.keyId || isSameKeyId(former.keyId, keyId)) return false
  tell(`${path} has the key of ${former.keyId}, and these lines have another one: ${keyId}.`)
  tell('A password reset gives an account a new key; older backups still need the old one.')
  const answer = await askOnTerminal('Is it the same account, after a password reset? [y/N] ')
  if (/^y(es)?$/i.test(answer)) return true
  throw new ClientError(
    `Not replacing the key in ${path}: use --account FILE for another account, or run "sync-bridge disconnect --forget" first`,
  )
}

/** Revokes the refresh token that was replaced. A failure is only a warning, because the new one is saved. */
async function revokeReplaced(former: Partial<Account>, { refreshToken }: Account, session: Session) {
  const { refreshToken: replaced = '', tokenEndpoint = '', clientId = '' } = former
  if (replaced === refreshToken || !isRenewable({ refreshToken: replaced, tokenEndpoint, clientId })) return
  try {
    await revokeRefreshToken({ refreshToken: replaced, tokenEndpoint, clientId }, session.fetch)
    session.tell('Revoked the refresh token that was in this file before.')
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    session.tell(
      `warning: ${error.message}. The refresh token that was in this file before is still valid: sign it out in your account's settings`,
    )
  }
}

const endsSoon =
  'There is no REFRESH_TOKEN, so the access expires within hours. For lasting access, run "sync-bridge connect" in a terminal and use the ' +
  'recipe that it shows.'

const nextSteps = `
Next:
  In Firefox, set devtools.chrome.enabled back to false.
  sync-bridge ls          what your account has
  sync-bridge open        your data in your browser
  sync-bridge backup DIR  an encrypted copy of all of it`

/** Whether the text has all lines of the recipe. */
function hasEverything(text: string): boolean {
  const { token, keyId, syncKey, refreshToken, clientId, tokenEndpoint, tokenServerUrl } = parseAccount(text)
  return [token, keyId, syncKey, refreshToken, clientId, tokenEndpoint, tokenServerUrl].every(Boolean)
}

/** Tests all values by using them, and prints what it finds. */
async function describe({ client, tell }: Session): Promise<void> {
  const collections = await client.collections()
  tell(`Token, key id and storage: valid (${countOf(collections.length, 'collection')})`)
  await client.keysOf('bookmarks')
  tell('Sync key: valid, it decrypts the account')
  const [bookmarks, devices] = await Promise.all([readAll(client, 'bookmarks'), readAll(client, 'clients')])
  const isBookmark = ({ clear }: ReadableRecord) => !['folder', 'separator'].includes(textOf(clear.type))
  tell(
    `Found ${countOf(bookmarks.filter(isBookmark).length, 'bookmark')}, ${countOf(devices.length, 'device')}`,
  )
}

async function readAll(client: Session['client'], collection: string) {
  const found = []
  for await (const record of client.collection(collection).records())
    if (isReadable(record)) found.push(record)
  return found
}

const lineNames: Record<string, string> = {
  token: 'BEARER_TOKEN',
  keyId: 'KEY_ID',
  bucket: 'BUCKET',
  syncKey: 'SYNC_KEY',
  bridgeUrl: 'BRIDGE_URL',
}

function fieldPrefix({ field }: ClientError): string {
  return field === null ? '' : `${lineNames[field]}: `
}

function instructions(): string {
  return `In a desktop Firefox that is signed in to the account:

  1. Open about:config and set devtools.chrome.enabled to true.
  2. Open the Browser Console: Ctrl+Shift+J, on a Mac Cmd+Shift+J.
  3. Paste this and press Enter. Firefox may first ask you to type "allow pasting".

${recipe}
Paste the lines that it prints here; they are not shown. Then press Enter on an empty line, or Ctrl+D.
`
}

export const disconnectCommand: CommandFactory = (perform) =>
  describeCommand('disconnect', 'revoke the access, and keep only your keys')
    .addOption(accountOption)
    .addOption(caOption)
    .option('--forget', 'remove the keys, which backups need, and what "undo" has kept')
    .action(perform((host, options) => disconnect(options, host)))

/**
 * Revokes the refresh token. Keeps the keys in the account file, because backups need them, unless they are to be forgotten; then what
 * `undo` has saved goes, too.
 */
async function disconnect(
  { account, ca, forget }: Pick<AccountOptions, 'account' | 'ca'> & { forget?: boolean },
  host: Host,
): Promise<number> {
  let path: string | null = null
  try {
    path = accountPath(account, host)
    const given = readAccountFile(path, host)
    const { keyId, bucket, syncKey, formerKeys, bridgeUrl } = given
    const { refreshToken = '', tokenEndpoint = '', clientId = '' } = given
    const tokens = { refreshToken, tokenEndpoint, clientId }
    requireSafeServers(given)
    useProxy(host)
    removeAbandonedDrafts(path, host)
    if (isRenewable(tokens)) await revokeRefreshToken(tokens, trustingFetch(ca, host))
    const isKept = Boolean(syncKey) && !forget
    if (isKept) writeAccountFile(path, { keyId, bucket, syncKey, formerKeys, bridgeUrl }, host)
    else removeAccountFile(path)
    if (forget) forgetUndo(bucketOf(keyId ?? ''), host)
    const revoked = isRenewable(tokens) ? 'revoked the refresh token and ' : ''
    host.stderr.write(
      isKept
        ? `Disconnected: ${revoked}removed the tokens from ${path}. It keeps your keys, which backups need: "sync-bridge disconnect --forget" removes them.\n`
        : `Disconnected: ${revoked}removed ${path}.\n`,
    )
    return 0
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    host.stderr.write(`sync-bridge: ${printable(error.message)}\n`)
    if (path !== null) host.stderr.write(`${path} was not changed.\n`)
    return 1
  }
}

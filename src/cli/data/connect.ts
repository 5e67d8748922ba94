import recipe from '../../../docs/examples/firefox-console.txt' with { type: 'text' }
import { checkAccount, parseAccount, type Account } from '../../client/account.ts'
import { isReadable, type ReadableRecord } from '../../client/collection.ts'
import { ClientError } from '../../client/errors.ts'
import { isRenewable, revokeRefreshToken } from '../../client/token.ts'
import { describeCommand, type CommandFactory } from '../command.ts'
import { accountPath, readAccountFile, removeAccountFile, writeAccountFile } from './account-file.ts'
import { accountOption } from './options.ts'
import { countOf, mozillaTokenServer, printable, withBridge, type Session } from './session.ts'
import { readPastedLines } from './terminal.ts'
import { textOf } from '../../client/fields.ts'
import type { Host } from '../host.ts'

export const connectCommand: CommandFactory = (perform) =>
  describeCommand(
    'connect',
    'connect your account, with the values that your Firefox prints',
    'Shows the recipe to paste into Firefox, reads its output from the terminal or standard input, tests the values, and ' +
      'saves them in a file that only you can read.',
  )
    .addOption(accountOption)
    .option('--token-server <URL>', 'your own token server; default: the one that Firefox prints')
    .action(perform((host, { account, tokenServer }) => connect(account, tokenServer, host)))

/** Reads the account's values, tests each of them, and saves them. */
async function connect(
  file: string | undefined,
  tokenServer: string | undefined,
  host: Host,
): Promise<number> {
  let text: string | null = ''
  try {
    const path = accountPath(file, host)
    text = await readPastedLines(() => void host.stderr.write(instructions()), hasEverything)
    if (text === null) return 1
    const given = parseAccount(text)
    if (Object.keys(given).length === 0)
      throw new ClientError('No line has the form NAME=value: paste the lines that Firefox prints')
    const account = { ...given, ...(tokenServer && { tokenServerUrl: tokenServer }) }
    const checked = checkAccount(account)
    if (checked.syncKey === '')
      throw new ClientError('Missing: copy all lines that Firefox prints', { field: 'syncKey' })
    return await withBridge(checked, host, {}, async (session) => {
      await describe(session)
      writeAccountFile(path, { ...checked, token: session.client.account.token })
      session.tell(
        `Connected. The account is saved in ${path}. Anyone with this file can read everything you sync.`,
      )
      if (!isRenewable(checked)) session.tell(endsSoon)
      return 0
    })
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    host.stderr.write(`sync-bridge: ${nameOf(error)}${printable(error.message)}\n`)
    const server = tokenServer ?? parseAccount(text ?? '').tokenServerUrl ?? mozillaTokenServer
    if (error.status === 503) host.stderr.write(`Token server: ${printable(server)}\n`)
    // Often left over from the sandbox, whose bridge rejects every real account.
    const bridgeUrl = host.environment.BRIDGE_URL?.replace(/^.*@/, '********@')
    if (bridgeUrl) host.stderr.write(`Bridge: ${printable(bridgeUrl)}, from BRIDGE_URL\n`)
    host.stderr.write('Nothing was saved.\n')
    return 1
  }
}

const endsSoon =
  'There is no REFRESH_TOKEN, so the access expires within hours. For lasting access, run "sync-bridge connect" in a terminal and use the ' +
  'recipe that it shows.'

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

function nameOf({ field }: ClientError): string {
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
  describeCommand('disconnect', 'revoke the access, and remove the account file')
    .addOption(accountOption)
    .action(perform((host, { account }) => disconnect(account, host)))

/** Revokes the refresh token and removes the account file. */
async function disconnect(file: string | undefined, host: Host): Promise<number> {
  let path: string | null = null
  try {
    path = accountPath(file, host)
    const given: Account = checkAccount(readAccountFile(path, host))
    if (isRenewable(given)) await revokeRefreshToken(given, fetch)
    removeAccountFile(path)
    host.stderr.write(
      `Disconnected: ${isRenewable(given) ? 'revoked the refresh token and ' : ''}removed ${path}.\n`,
    )
    return 0
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    host.stderr.write(`sync-bridge: ${printable(error.message)}\n`)
    if (path !== null) host.stderr.write(`${path} was not removed.\n`)
    return 1
  }
}

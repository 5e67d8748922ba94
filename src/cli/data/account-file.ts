import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { formatAccount, parseAccount, withToken, type Account } from '../../client/account.ts'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { targetOf } from './drafts.ts'
import { configurationFolder } from './user-folders.ts'
import { writeWhole } from './whole-file.ts'
import type { Host } from '../host.ts'

/** The path of the account file: `--account`, else `SYNC_BRIDGE_ACCOUNT`, else a file in the user's configuration. */
export function accountPath(named: string | undefined, { environment }: Pick<Host, 'environment'>): string {
  const given = named ?? environment.SYNC_BRIDGE_ACCOUNT
  if (given) return given
  const folder = configurationFolder(environment)
  if (folder !== null) return join(folder, 'account.env')
  throw new ClientError(
    'Cannot find the account: neither HOME nor XDG_CONFIG_HOME is set. Specify it with --account FILE',
  )
}

/** Reads an account file. Throws `ClientError` with the remedy if that fails. */
export function readAccountFile(path: string, host: Host): Partial<Account> {
  let text: string
  try {
    text = host.readFile(path)
  } catch (error) {
    const isAbsent = (error as NodeJS.ErrnoException).code === 'ENOENT'
    const remedy = isAbsent
      ? 'run "sync-bridge connect" first, or specify it with --account FILE'
      : 'check its owner and permissions'
    throw new ClientError(`Cannot read the account ${path} (${reasonOf(error)}): ${remedy}`)
  }
  const readers = host.otherReaders(path)
  if (readers !== null)
    host.stderr.write(
      `warning: ${path} contains the key to everything you sync, and ${readers} can read it: chmod 600 ${path}\n`,
    )
  return parseAccount(text)
}

/** The same; empty if there is no such file. */
export function readAccountFileIfAny(path: string, host: Host): Partial<Account> {
  return existsSync(path) ? readAccountFile(path, host) : {}
}

const urlText = String.raw`https?:\/\/[\w.~:\/%[\]-]+`
/** What these values look like; `checkAccount` knows the others. */
const forms: [name: string, field: keyof Account, form: RegExp][] = [
  ['BEARER_TOKEN', 'token', /^[\w.~+/=-]+$/],
  ['REFRESH_TOKEN', 'refreshToken', /^[\w.~+/=-]*$/],
  ['CLIENT_ID', 'clientId', /^[\da-f]*$/i],
  ['TOKEN_ENDPOINT', 'tokenEndpoint', new RegExp(`^(?:${urlText})?$`)],
  ['TOKEN_SERVER_URL', 'tokenServerUrl', new RegExp(`^(?:${urlText})?$`)],
  ['BRIDGE_URL', 'bridgeUrl', new RegExp(`^(?:${urlText})?$`)],
]

/** Throws `ClientError` for a value that is not of its form, before it is written to a file that shells source. */
export function requireForms(account: Account): void {
  const wrong = forms.find(([, field, form]) => !form.test(account[field]))
  if (wrong) throw new ClientError(`${wrong[0]} contains characters that no such value has: copy it again`)
}

/** Saves an account, readable only for its owner. Throws `ClientError`. */
export function writeAccountFile(
  path: string,
  account: Partial<Account>,
  host: Pick<Host, 'environment'>,
): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeWhole(path, [formatAccount(account)], host)
  } catch (error) {
    throw new ClientError(`Cannot write the account ${path} (${reasonOf(error)})`)
  }
}

/** Replaces the access token in the file; other lines stay unchanged. */
export function keepToken(path: string, account: Account, host: Host): void {
  try {
    const text = withToken(host.readFile(path), account)
    if (text !== null) writeWhole(path, [text], host)
  } catch (error) {
    host.stderr.write(
      `warning: Cannot save the new access token in ${path} (${reasonOf(error)}): the next run has to renew it again\n`,
    )
  }
}

/** Removes an account's file; of a symbolic link, also the file that has the secrets. Throws `ClientError`. */
export function removeAccountFile(path: string): void {
  try {
    for (const each of [targetOf(path), path]) rmSync(each, { force: true })
  } catch (error) {
    throw new ClientError(`Cannot remove the account ${path} (${reasonOf(error)}): remove it yourself`)
  }
}

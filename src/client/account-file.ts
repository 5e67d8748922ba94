/** The account file of `sync-bridge connect`, for programs in Node 20.16 and later, Deno and Bun. */
import { parseAccount, withToken, type Account } from './account.ts'
import { ClientError } from './errors.ts'

/** The part of `node:fs` that is used. */
interface Files {
  readFileSync(path: string, encoding: 'utf8'): string
  realpathSync(path: string): string
  openSync(path: string, flags: 'wx', mode: number): number
  writeFileSync(file: number, text: string): void
  fsyncSync(file: number): void
  closeSync(file: number): void
  renameSync(from: string, to: string): void
  rmSync(path: string, options: { force: true }): void
}

interface Runtime {
  env: Record<string, string | undefined>
  getBuiltinModule?(name: 'node:fs'): Files
  emitWarning(warning: string): void
}

function openRuntime(): { runtime: Runtime; files: Files } {
  const { process } = globalThis as { process?: Runtime }
  const files = process?.getBuiltinModule?.('node:fs')
  if (!process || !files)
    throw new ClientError('There are no files here: pass the values of the account instead')
  return { runtime: process, files }
}

/**
 * Reads an account file; a client writes new access tokens into the same file. It is `path`, else `SYNC_BRIDGE_ACCOUNT`, else
 * `sync-bridge/account.env` in `XDG_CONFIG_HOME` or `~/.config`. Throws `ClientError` if that fails.
 */
export function readAccountFile(path?: string): Partial<Account> {
  const { runtime, files } = openRuntime()
  const { SYNC_BRIDGE_ACCOUNT, XDG_CONFIG_HOME, HOME = '' } = runtime.env
  const standard = `${XDG_CONFIG_HOME || `${HOME}/.config`}/sync-bridge/account.env`
  const file = path ?? (SYNC_BRIDGE_ACCOUNT || standard)
  try {
    return { ...parseAccount(files.readFileSync(file, 'utf8')), file }
  } catch (error) {
    const { code, message } = error as Error & { code?: string }
    const reason = code === 'ENOENT' ? 'it does not exist: run "sync-bridge connect"' : message
    throw new ClientError(`Cannot read the account file ${JSON.stringify(file)}: ${reason}`, { cause: error })
  }
}

/** Writes the account's token into its file; other lines stay unchanged. Warns on failure: the next run will renew it again. */
export function keepToken(account: Account): void {
  const { runtime, files } = openRuntime()
  try {
    const file = files.realpathSync(account.file)
    const text = withToken(files.readFileSync(file, 'utf8'), account)
    if (text !== null) replaceFile(files, file, text)
  } catch (error) {
    const { message } = error as Error
    runtime.emitWarning(
      `The new access token is not in "${account.file}", the next run will need another: ${message}`,
    )
  }
}

function replaceFile(files: Files, path: string, text: string): void {
  // The name of the commands' drafts, which remove it if this process is killed.
  const folder = path.slice(0, Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1)
  const draft = `${folder}.sync-bridge-${crypto.randomUUID()}`
  const opened = files.openSync(draft, 'wx', 0o600)
  try {
    files.writeFileSync(opened, text)
    files.fsyncSync(opened)
    files.closeSync(opened)
    files.renameSync(draft, path)
  } catch (error) {
    files.rmSync(draft, { force: true })
    throw error
  }
}

import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { bookmarkTree, foldersNamed, walk } from '../src/client/bookmarks.ts'
import { isReadable, type ReadableRecord } from '../src/client/collection.ts'
import { listOf, textOf } from '../src/client/fields.ts'
import { SyncClient } from '../src/client/sync-client.ts'
import { formatAccount, parseAccount, type Account } from '../src/client/account.ts'
import { executablePath, makeFolder, start, type Running } from '../tests/support/executable.ts'
import { eventually } from '../tests/support/eventually.ts'

const size = { width: 92, height: 28 }
const typedEveryMs = 35
// A slow machine must not slow down the cast.
const longestGapMs = 250
const folderName = 'Recipes'

/**
 * Runs the commands for your own data in a terminal, with the account of a sandbox, and returns the recorded output as a cast. Text and
 * order are real; typing and pauses are timed for readers. @see https://docs.asciinema.org/manual/asciicast/v2/
 */
export async function recordCast(): Promise<string> {
  await using sandbox = start(['sandbox', '--port', '0'])
  const account = await accountOf(sandbox)
  const terminal = startTerminal()
  await terminal.command('sync-bridge connect', async () => {
    await terminal.shows('or Ctrl+D.\r\n')
    terminal.wait(2500)
    terminal.paste(linesOf(account))
  })
  await terminal.command('sync-bridge export bookmarks --output bookmarks.html')
  await terminal.command('sync-bridge backup sync-backups')
  await deleteFolder(account)
  await terminal.command(`# Then the folder ${folderName} is deleted in Firefox, with all bookmarks in it.`)
  await terminal.command(`sync-bridge restore sync-backups --folder ${folderName} --write`)
  return terminal.end()
}

/** The sandbox's account, and the address of its bridge. */
async function accountOf(sandbox: Running): Promise<Partial<Account>> {
  const [, path] = await sandbox.line(/^ {2}\. (\S+)$/)
  return parseAccount(readFileSync(path!, 'utf8'))
}

/** The lines that Firefox would print. The token outlasts the run, so the refresh token is never used. */
function linesOf(account: Partial<Account>): string {
  const forFirefox = {
    refreshToken: 'unused',
    clientId: '5882386c6d801776',
    tokenEndpoint: 'http://127.0.0.1:9/',
  }
  return formatAccount({ ...account, ...forFirefox, bridgeUrl: '' })
}

/** Deletes a folder and its contents, like Firefox. */
async function deleteFolder(account: Partial<Account>): Promise<void> {
  const client = new SyncClient(account)
  const records: ReadableRecord[] = []
  for await (const record of client.collection('bookmarks').records())
    if (isReadable(record)) records.push(record)
  const [folder] = foldersNamed(bookmarkTree(records), folderName)
  const gone = walk([folder!]).map(({ record }) => ({ id: record.stored.id, deleted: true }))
  const { clear } = folder!.parent!.record
  const children = listOf(clear.children).filter((id) => textOf(id) !== folder!.record.stored.id)
  const requests = [...gone, { ...clear, children }].map(async (record) => {
    const payload = await client.encrypt('bookmarks', record)
    return { method: 'PUT', collection: 'bookmarks', id: record.id, data: { payload } } as const
  })
  const { maxRequests } = await client.info()
  const all = await Promise.all(requests)
  for (let at = 0; at < all.length; at += maxRequests)
    await client.transaction(all.slice(at, at + maxRequests))
}

/** A shell in a pseudo-terminal, in a new home directory. Paths are relative, so that the cast shows nothing of this machine. */
function startTerminal() {
  const events: [seconds: number, code: 'o' | 'm', text: string][] = []
  const decoder = new TextDecoder()
  let shown = ''
  let timeMs = 0
  let lastMs = performance.now()
  let nextGapMs: number | null = null

  function add(code: 'o' | 'm', text: string): void {
    events.push([Math.round(timeMs) / 1000, code, text])
  }

  function take(bytes: Uint8Array): void {
    const nowMs = performance.now()
    timeMs += nextGapMs ?? Math.min(nowMs - lastMs, longestGapMs)
    nextGapMs = null
    lastMs = nowMs
    const text = decoder.decode(bytes, { stream: true })
    shown += text
    add('o', text)
  }

  const home = makeFolder()
  // A command that fails ends the shell.
  const shell = Bun.spawn(['bash', '--norc', '--noprofile', '--noediting', '-e', '-i'], {
    cwd: home,
    env: {
      PATH: `${dirname(executablePath)}:/usr/bin:/bin`,
      HOME: home,
      XDG_CONFIG_HOME: '.config',
      LANG: 'C.UTF-8',
      PS1: '$ ',
    },
    terminal: { cols: size.width, rows: size.height, data: (_, bytes) => take(bytes) },
  })
  const terminal = shell.terminal!
  const wait = (ms: number) => void (timeMs += ms)

  async function shows(end: string): Promise<void> {
    await eventually(
      `the terminal shows ${JSON.stringify(end)}`,
      () => shell.exitCode !== null || shown.endsWith(end),
    )
    if (shell.exitCode !== null) throw new Error(`A recorded command has failed:\n${shown}`)
  }

  async function type(text: string): Promise<void> {
    for (const char of text) {
      const before = shown.length
      nextGapMs = typedEveryMs
      terminal.write(char)
      await eventually('the terminal echoes', () => shown.length > before)
    }
  }

  return {
    shows,
    wait,
    paste: (text: string) => void terminal.write(text),
    /** Types a command, waits for its end, and leaves time to read. */
    async command(text: string, meanwhile = async () => {}): Promise<void> {
      await shows('$ ')
      wait(1000)
      const [, name] = /^sync-bridge (\w+)/.exec(text) ?? []
      if (name) add('m', name)
      await type(text)
      terminal.write('\n')
      await meanwhile()
      await shows('\r\n$ ')
    },
    async end(): Promise<string> {
      wait(3000)
      add('o', '')
      terminal.close()
      await shell.exited
      const header = { version: 2, ...size, title: 'connect, export, backup, restore' }
      return [header, ...events].map((line) => `${JSON.stringify(line)}\n`).join('')
    },
  }
}

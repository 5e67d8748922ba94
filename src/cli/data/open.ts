import { ClientError } from '../../client/errors.ts'
import { isRenewable, renewToken } from '../../client/token.ts'
import { bridgeRoot, writableAt } from '../../client/writable.ts'
import { Option, wholeNumber, type CommandFactory } from '../command.ts'
import { onEnter, startLinks, type Links } from '../links.ts'
import { writePrivateFile, type PrivateFile } from '../private-file.ts'
import { describeAddressError } from '../service/listening.ts'
import { interruption } from '../signals.ts'
import { childEnvironment } from './child-environment.ts'
import { describeAccountCommand } from './options.ts'
import { withAccount, type Session } from './session.ts'
import type { AccountOptions } from './bridge-choice.ts'
import type { Host } from '../host.ts'

export const openCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'open',
    'show your data in your browser, decrypted there',
    'Serves the page itself, on this machine. Its link works once, within a minute; press Enter for a new one, and Ctrl+C to stop.',
  )
    .addOption(
      new Option('-p, --port <N>', 'the port of the page; any free one by default').argParser(
        wholeNumber(0, 65_535),
      ),
    )
    .option('--edit', 'let the page change your data, on all devices')
    .action(perform((host, options) => open(options, host)))

/** The collections that the page can edit. */
const editable = ['bookmarks', 'history', 'passwords', 'forms', 'addresses', 'creditcards']

type OpenOptions = AccountOptions & { port?: number; edit?: boolean }

/** Serves a page that shows the account until a signal, and opens it in the browser. */
function open({ port = 0, edit = false, ...given }: OpenOptions, host: Host): Promise<number> {
  return withAccount(given, host, { writes: edit ? editable : [] }, async (session) => {
    const { client, bridgeUrl, tell } = session
    await client.keysOf('bookmarks')
    const allowed = edit ? await allowedToEdit(session) : new Set<string>()
    const links = await listen({ bridgeUrl, port, editable: allowed }, host)
    const stopped = interruption(host)
    let page: PrivateFile | null = null
    try {
      await requireAllowed(links.origin, session)
      const canAsk = onEnter(host, () => tell(`  ${issue()}`))
      const issue = () =>
        links.issue('explore', async () => {
          const time = new Date(host.now()).toTimeString().slice(0, 8)
          tell(`The link was used at ${time}.${canAsk ? ' Press Enter for a new one.' : ''}`)
          return valuesFor(session)
        })
      const link = issue()
      page = writePage(link)
      tell(`Your data, decrypted in your browser:\n  ${link}`)
      tell(
        `The link works once, within a minute. Press ${canAsk ? 'Enter for a new one, ' : ''}Ctrl+C to stop.`,
      )
      if (page !== null) openInBrowser(page.path, host)
      await stopped
      return 0
    } finally {
      page?.remove()
      await links.stop()
    }
  })
}

async function listen(options: Parameters<typeof startLinks>[0], host: Host): Promise<Links> {
  try {
    return startLinks(options, host)
  } catch (error) {
    const { port } = options
    const address = { hostname: '127.0.0.1', port, setting: '--port', purpose: 'serve the page' }
    const problem = await describeAddressError(error, address)
    if (problem === null) throw error
    throw new ClientError(`Cannot serve the page at 127.0.0.1:${port}: ${problem}`)
  }
}

/** Rejects with `ClientError` if the bridge allows no writes. */
async function allowedToEdit({ bridgeUrl, client, ...session }: Session): Promise<Set<string>> {
  const { bucket } = client.account
  const allowed = await writableAt(bridgeUrl, bucket, editable, session.fetch).catch((cause: unknown) => {
    throw new ClientError(`No response from the bridge at ${bridgeUrl}`, { cause })
  })
  if (allowed.size > 0) return allowed
  throw new ClientError(
    `The bridge at ${bridgeUrl} allows no writes: its operator has to set service.record_bookmarks_put_enabled`,
  )
}

/** Rejects with `ClientError` if the bridge does not let a page of this origin ask it. */
async function requireAllowed(origin: string, { bridgeUrl, client, ...session }: Session): Promise<void> {
  const url = `${bridgeRoot(bridgeUrl)}/v1/buckets/${client.account.bucket}/collections`
  const headers = {
    Origin: origin,
    'Access-Control-Request-Method': 'GET',
    'Access-Control-Request-Headers': 'authorization,x-keyid',
  }
  const answer = await session
    .fetch(url, { method: 'OPTIONS', headers, redirect: 'manual' })
    .catch((cause: unknown) => {
      throw new ClientError(`No response from the bridge at ${bridgeUrl}`, { cause })
    })
  await answer.body?.cancel()
  const allowed = answer.headers.get('Access-Control-Allow-Origin')
  if (allowed === '*' || allowed === origin) return
  throw new ClientError(
    `The bridge at ${bridgeUrl} does not answer the page at ${origin}: its operator has to add that to service.cors_origins. "open --port N" keeps the port the same`,
  )
}

/** Renews the token, so that the page works for an hour. If that fails, the present one may still be valid. */
async function valuesFor({ client: { account }, fetch, tell }: Session): Promise<Record<string, string>> {
  if (isRenewable(account))
    await renewToken(account, fetch).then(
      (token) => (account.token = token),
      ({ message }: ClientError) => tell(message),
    )
  const { token, keyId, bucket, syncKey } = account
  return { token, keyId, bucket, syncKey }
}

/** A page that leads to the link, because every user can see the arguments of a program. */
function writePage(link: string): PrivateFile | null {
  return writePrivateFile('open.html', () => `<meta http-equiv="refresh" content="0; url=${link}">`)
}

function openInBrowser(page: string, { environment }: Host): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open'
  const hasScreen = process.platform === 'darwin' || environment.DISPLAY || environment.WAYLAND_DISPLAY
  if (!hasScreen || Bun.which(program) === null) return
  Bun.spawn([program, page], {
    env: childEnvironment(environment),
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'ignore',
  }).unref()
}

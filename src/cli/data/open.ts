import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClientError } from '../../client/errors.ts'
import { isRenewable, renewToken } from '../../client/token.ts'
import { describeAccountCommand } from './options.ts'
import { interruption } from '../signals.ts'
import type { CommandFactory } from '../command.ts'
import { withAccount } from './session.ts'
import type { Account } from '../../client/account.ts'
import type { AccountOptions } from './bridge-choice.ts'
import type { Host } from '../host.ts'

export const openCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'open',
    'show your data in your browser, decrypted there',
    'Press Ctrl+C to stop.',
  ).action(perform((host, options) => open(options, host)))

/** Shows the account in a browser until a signal: starts a bridge with the explorer on loopback and opens the browser. */
function open(options: AccountOptions, host: Host): Promise<number> {
  return withAccount(options, host, { hasExplorer: true }, async ({ client, bridgeUrl, tell }) => {
    await client.keysOf('bookmarks')
    await client.requests.ask('/explore', { method: 'HEAD' }).catch((error: ClientError) => {
      if (error.status !== 404) throw error
      throw new ClientError(
        `The bridge at ${bridgeUrl} does not show data: its operator has to set service.explorer_enabled = true`,
      )
    })
    const secret = Buffer.from(host.randomBytes(24)).toString('base64url')
    const links = startLink(`/${secret}`, async () => {
      // Renews the token, so that the link still works hours later. On failure, the present one may still be valid.
      const { account } = client
      if (isRenewable(account))
        await renewToken(account, fetch).then(
          (token) => (account.token = token),
          ({ message }: ClientError) => tell(message),
        )
      return explorerLink(bridgeUrl, account)
    })
    const stopped = interruption(host)
    const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-'))
    try {
      const url = `http://127.0.0.1:${links.port}/${secret}`
      const page = join(folder, 'open.html')
      // Every user can see the arguments of a program, so the browser gets the name of a private file.
      writeFileSync(page, `<meta http-equiv="refresh" content="0; url=${url}">`, { mode: 0o600 })
      tell(`Your data, decrypted in your browser:\n  ${url}\nPress Ctrl+C to stop.`)
      openInBrowser(page, host)
      await stopped
      return 0
    } finally {
      rmSync(folder, { recursive: true, force: true })
      await links.stop(true)
    }
  })
}

/** Serves a single redirect. */
function startLink(path: string, target: () => Promise<string>) {
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch({ url }) {
      if (new URL(url).pathname !== path) return new Response(null, { status: 404 })
      return new Response(null, {
        status: 302,
        headers: { Location: await target(), 'Cache-Control': 'no-store' },
      })
    },
  })
}

// In the fragment, because browsers do not send it to servers or logs.
function explorerLink(bridgeUrl: string, { bucket, keyId, token, syncKey }: Account): string {
  const values = { BUCKET: bucket, KEY_ID: keyId, BEARER_TOKEN: token, SYNC_KEY: syncKey }
  const fragment = Object.entries(values).map(([name, value]) => `${name}=${value}`)
  return `${bridgeUrl.replace(/(?:\/v1)?\/?$/, '')}/v1/explore#${fragment.join('&')}`
}

function openInBrowser(page: string, { environment }: Host): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open'
  const hasScreen = process.platform === 'darwin' || environment.DISPLAY || environment.WAYLAND_DISPLAY
  if (!hasScreen || Bun.which(program) === null) return
  Bun.spawn([program, page], { stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' }).unref()
}

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Accounts } from './accounts.ts'
import { dieWithParent } from '../support/die-with-parent.ts'
import { openMarionette, type Marionette } from './marionette.ts'

/** A Firefox without a window, with a profile that is removed when it stops. Only Firefox shows what it accepts, and what it deletes. */
export interface Firefox {
  /** Calls a function of `inside.js` in Firefox. */
  call<T = void>(name: string, ...args: unknown[]): Promise<T>
  marionette: Marionette
  stop(): Promise<void>
}

/** The signed-in user, and the addresses of the servers. */
export interface Account {
  accounts: Accounts
  tokenServerUrl: string
  user: SandboxUser
}

/** The program, or null if it is not installed. */
export const firefoxPath = Bun.which('firefox-esr') ?? Bun.which('firefox')

const startMs = 100_000
const inside = readFileSync(join(import.meta.dir, 'inside.js'), 'utf8')

/** Starts Firefox and signs in; nothing is synced yet. */
export async function startFirefox(account: Account): Promise<Firefox> {
  const { marionette, stop } = await launchFirefox(preferencesOf(account))
  try {
    const call = <T>(name: string, ...args: unknown[]) =>
      marionette.run<T>(`${inside}\nreturn await ${name}(...args)`, ...args)
    const { email, sessionToken } = account.accounts
    const { keyId, syncKey } = account.user
    await call('signIn', { email, sessionToken, keyId, syncKey: syncKey.toString('hex') })
    return { call, marionette, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Preferences = Record<string, string | number | boolean>

/** Starts Firefox without an account. */
async function launchFirefox(
  preferences: Preferences,
): Promise<{ marionette: Marionette; stop(): Promise<void> }> {
  if (firefoxPath === null)
    throw new Error('Cannot find the program "firefox-esr": "make test-tools" installs it')
  const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-firefox-'))
  writeFileSync(join(folder, 'user.js'), preferencesText({ ...isolated, ...preferences }))
  const flags = ['--headless', '--no-remote', '--marionette', '--remote-allow-system-access']
  const child = Bun.spawn([...dieWithParent('KILL'), firefoxPath, ...flags, '--profile', folder], {
    // Files outside its profile go there, too.
    env: {
      PATH: '/usr/bin:/bin',
      HOME: folder,
      XDG_CACHE_HOME: folder,
      TMPDIR: folder,
      MOZ_CRASHREPORTER_DISABLE: '1',
    },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'ignore',
  })
  const end = async () => {
    child.kill('SIGKILL')
    await child.exited
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  try {
    const marionette = await openMarionette(await readPort(join(folder, 'MarionetteActivePort'), child))
    return {
      marionette,
      async stop() {
        marionette.close()
        await end()
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}

async function readPort(path: string, child: Bun.Subprocess): Promise<number> {
  const deadline = Date.now() + startMs
  while (Date.now() < deadline && child.exitCode === null) {
    const port = existsSync(path) ? Number(readFileSync(path, 'utf8')) : 0
    if (port > 0) return port
    await Bun.sleep(50)
  }
  throw new Error(
    `Cannot reach Firefox: ${child.exitCode === null ? `silent for ${startMs} ms` : 'it has ended'}`,
  )
}

// Requests to other hosts go to a proxy that does not exist. Marionette disables other background activity.
const isolated: Preferences = {
  'network.proxy.type': 1,
  'network.proxy.http': '127.0.0.1',
  'network.proxy.http_port': 1,
  'network.proxy.ssl': '127.0.0.1',
  'network.proxy.ssl_port': 1,
  'marionette.port': 0,
}

function preferencesOf({ accounts: { url: accountsUrl }, tokenServerUrl }: Account): Preferences {
  return {
    // The setting that docs/connect.md requires for input in the Browser Console.
    'devtools.chrome.enabled': true,
    'identity.fxaccounts.allowHttp': true,
    'identity.fxaccounts.auth.uri': `${accountsUrl}/v1`,
    'identity.fxaccounts.remote.root': accountsUrl,
    'identity.fxaccounts.remote.oauth.uri': `${accountsUrl}/v1`,
    'identity.fxaccounts.remote.profile.uri': `${accountsUrl}/v1`,
    'identity.sync.tokenserver.uri': `${tokenServerUrl}/1.0/sync/1.5`,
    'services.sync.log.appender.file.logOnError': false,
    'services.sync.log.appender.file.logOnSuccess': false,
    // Syncs are requested one at a time.
    'services.sync.scheduler.immediateInterval': 86_400,
    'services.sync.scheduler.idleInterval': 86_400,
    'services.sync.scheduler.activeInterval': 86_400,
    'services.sync.scheduler.fxa.singleDeviceInterval': 86_400,
    'services.sync.syncThreshold': 1_000_000,
  }
}

function preferencesText(preferences: Preferences): string {
  const lines = Object.entries(preferences).map(
    ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`,
  )
  return lines.join('')
}

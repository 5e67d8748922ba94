import { dirname, join } from 'node:path'
import { executablePath, makeFolder } from '../../support/executable.ts'
import { runToEnd } from '../../support/processes.ts'
import { accountOf, linesOf } from '../../examples/records.ts'
import type { Sandbox } from '../../support/sandbox.ts'
import type { SandboxUser } from '../../../src/sandbox/sandbox-user.ts'

/** The lines of an account file; each command starts the bridge. */
export function valuesOf(sandbox: Sandbox, user: SandboxUser): Record<string, string> {
  return { ...accountOf(user), TOKEN_SERVER_URL: sandbox.tokenServerUrl }
}

/** A file with these lines that only its owner can read. */
export function accountFile(values: Record<string, string>): string {
  return join(makeFolder({ 'account.env': linesOf(values) }), 'account.env')
}

/** Whether the storage has answered so many requests after that many others. */
export function hasAnswered(sandbox: Sandbox, known: number, count = 1): boolean {
  return sandbox.requests.storage.entries.slice(known).filter(({ status }) => status > 0).length >= count
}

/** Runs a command with an account until it exits. */
export function runWith(
  account: string,
  command: string[],
  input?: string | Uint8Array,
  more: Record<string, string> = {},
) {
  // What a command overwrites is kept beside the account, and not in the home of whoever runs the tests.
  const environment = { SYNC_BRIDGE_ACCOUNT: account, XDG_STATE_HOME: dirname(account), ...more }
  return runToEnd([executablePath, ...command], { environment, input })
}

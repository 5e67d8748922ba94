import { dirname, join } from 'node:path'
import { processHost } from '../../../src/cli/host.ts'
import { run } from '../../../src/cli/run.ts'
import { fakeHost, inputOf } from '../fake-host.ts'
import { executablePath, makeFolder } from '../../support/executable.ts'
import { runToEnd } from '../../support/processes.ts'
import { accountOf, linesOf } from '../../support/records.ts'
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

// Once: it listens to the output of the process.
const host = processHost()

/** Runs a command in this process, over real files. The executable takes five times as long; tests/system and tests/examples run it. */
export async function runHere(
  command: string[],
  variables: Record<string, string>,
  input: string | Uint8Array = '',
) {
  const fake = fakeHost()
  const { stdout, stderr, onSignal } = fake
  const environment = { PATH: '/usr/bin:/bin', ...variables }
  const code = await run(command, { ...host, environment, stdin: inputOf(input), stdout, stderr, onSignal })
  return { output: fake.out, errors: fake.err, code }
}

/** Runs a command with an account until it ends, with this input and these variables. */
export function runWith(
  account: string,
  command: string[],
  input?: string | Uint8Array,
  more: Record<string, string> = {},
) {
  return runHere(command, { ...variablesOf(account), ...more }, input)
}

/** The same with the executable: only a process can have another time zone, or a file for its input. */
export function runAlone(account: string, command: string[], more: Record<string, string>, input?: string) {
  const environment = { ...variablesOf(account), ...more }
  return runToEnd([executablePath, ...command], { environment, input })
}

// What a command overwrites is kept beside the account, and not in the home of whoever runs the tests.
const variablesOf = (account: string) => ({ SYNC_BRIDGE_ACCOUNT: account, XDG_STATE_HOME: dirname(account) })

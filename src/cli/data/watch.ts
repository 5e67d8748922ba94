import { changes } from '../../client/changes.ts'
import { Option, wholeNumber, type CommandFactory } from '../command.ts'
import { writeOut } from '../output.ts'
import { childEnvironment } from './child-environment.ts'
import { describeAbsent, neverShown, refuseKeys } from './collection-names.ts'
import { collectionArguments, describeAccountCommand, sinceOption } from './options.ts'
import { interruption } from '../signals.ts'
import { jsonLine } from './ls.ts'
import { withAccount } from './session.ts'
import type { AccountOptions } from './bridge-choice.ts'
import type { Host } from '../host.ts'

export const watchCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'watch',
    'print a line of JSON for each change',
    'Passwords and credit cards are watched only if you name them. Press Ctrl+C to stop.',
  )
    .addArgument(collectionArguments('the collections to watch; all by default', neverShown))
    .addOption(sinceOption)
    .addOption(
      new Option('--every <SECONDS>', 'how often to poll').argParser(wholeNumber(1, 99_999)).default(60),
    )
    .option('--exec <CMD>', 'a shell command to run for each change, with the line on standard input')
    .action(
      perform((host, named = [], { since, every, exec, ...options }) =>
        watch(options, { named, since: since?.(host.now()), everySeconds: every, command: exec }, host),
      ),
    )

interface Watch {
  /** Collections; none: all. */
  named: string[]
  /** In ms since 1970. */
  since: number | undefined
  everySeconds: number
  /** A shell command. */
  command: string | undefined
}

/** Prints a line of JSON for each change, or runs a command with it, until a signal. */
function watch(
  options: AccountOptions,
  { named, since, everySeconds, command }: Watch,
  host: Host,
): Promise<number> {
  const stopping = new AbortController()
  void interruption(host).then(() => stopping.abort())
  return withAccount(options, host, {}, async ({ client, tell }) => {
    for (const name of named) {
      refuseKeys(name)
      const problem = await describeAbsent(client, name)
      if (problem !== null) tell(`warning: ${problem}`)
      // Fails if the bridge does not expose it. The list of collections, which is polled, doesn't show why one is absent.
      await client.requests.ask(`/buckets/${client.account.bucket}/collections/${encodeURIComponent(name)}`)
    }
    const watched = changes(client, {
      since,
      collections: named.length > 0 ? named : undefined,
      // These only if named, because lines end up in logs.
      exclude: ['passwords', 'creditcards'],
      everySeconds,
      signal: stopping.signal,
      onError: ({ message }) => tell(`${message} Retrying in ${everySeconds} s.`),
    })
    for await (const record of watched) {
      const line = jsonLine(record)
      if (command === undefined) {
        if (!(await writeOut(host, line))) return 0
      } else {
        const code = await runWith(command, line, host, stopping.signal)
        if (code !== 0 && !stopping.signal.aborted)
          tell(`The command exited with ${code} for ${record.collection}/${record.stored.id}`)
      }
    }
    return 0
  })
}

/** Runs a shell command with a text on its stdin, and ends it and its children if the signal is aborted; resolves to its exit code. */
async function runWith(
  command: string,
  input: string,
  { environment }: Host,
  signal: AbortSignal,
): Promise<number> {
  const child = Bun.spawn(['/bin/sh', '-c', command], {
    env: childEnvironment(environment),
    // Not a Blob, whose file stays open until the garbage is collected.
    stdin: 'pipe',
    stdout: 'inherit',
    stderr: 'inherit',
    detached: true,
  })
  // The command may end without reading it.
  void Promise.try(async () => {
    await child.stdin.write(input)
    await child.stdin.end()
  }).catch(() => {})
  const end = () => {
    // Its process group, because a shell does not pass signals on to its children.
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGTERM')
  }
  signal.addEventListener('abort', end)
  try {
    return await child.exited
  } finally {
    signal.removeEventListener('abort', end)
  }
}

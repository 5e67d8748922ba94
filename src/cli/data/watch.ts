import { changes } from '../../client/changes.ts'
import { interruption } from '../signals.ts'
import { readMoment } from './dates.ts'
import { jsonLine } from './ls.ts'
import { describeAbsent, refuseKeys, withAccount, writeOut } from './session.ts'
import { UsageError } from './usage-error.ts'
import type { GivenOptions } from '../command-line.ts'
import type { Host } from '../host.ts'

/** Prints a line of JSON for each change, or runs a command with it, until a signal. */
export function watch(options: GivenOptions, words: string[], host: Host): Promise<number> {
  const named = words.map((word) => word.toLowerCase())
  const since = readMoment(options, 'since', host.now()) ?? undefined
  const everySeconds = readSeconds(options)
  const [command] = options.get('exec') ?? []
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
      except: ['passwords', 'creditcards'],
      everySeconds,
      signal: stopping.signal,
      onError: ({ message }) => tell(`${message} Retrying in ${everySeconds} s.`),
    })
    for await (const record of watched) {
      const line = jsonLine(record)
      if (command === undefined) {
        if (!(await writeOut(host, line))) return 0
      } else {
        const code = await runWith(command, line, stopping.signal)
        if (code !== 0 && !stopping.signal.aborted)
          tell(`The command exited with ${code} for ${record.collection}/${record.stored.id}`)
      }
    }
    return 0
  })
}

function readSeconds(options: GivenOptions): number {
  const [text = '60'] = options.get('every') ?? []
  const seconds = Number(text)
  if (/^\d{1,5}$/.test(text) && seconds > 0) return seconds
  throw new UsageError(`--every ${JSON.stringify(text)} is not a number of seconds: write 1 to 99999`)
}

/** Runs a shell command with a text on its stdin, and ends it and its children if the signal is aborted; resolves to its exit code. */
async function runWith(command: string, input: string, signal: AbortSignal): Promise<number> {
  const child = Bun.spawn(['/bin/sh', '-c', command], {
    stdin: new Blob([input]),
    stdout: 'inherit',
    stderr: 'inherit',
    detached: true,
  })
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

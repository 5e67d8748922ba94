import { annotatedIni } from '../settings/settings-text.ts'
import { nearest } from '../settings/spelling.ts'
import { commit, name, version } from '../version.ts'
import { check, probe } from './service/check.ts'
import {
  commandHelp,
  commands,
  dataCommandNames,
  generalHelp,
  readArguments,
  type CommandName,
  type GivenOptions,
} from './command-line.ts'
import { completionScript, type Shell } from './completion.ts'
import { healthcheck } from './service/healthcheck.ts'
import { loadSettings, scrubEnvironment } from './service/load-settings.ts'
import { print } from './output.ts'
import { readSandboxOptions, sandbox } from './service/sandbox.ts'
import { serve } from './service/serve.ts'
import { add } from './data/add.ts'
import { backup } from './data/backup.ts'
import { connect, disconnect } from './data/connect.ts'
import { exportData } from './data/export.ts'
import { ls } from './data/ls.ts'
import { open } from './data/open.ts'
import { restore } from './data/restore.ts'
import { UsageError } from './data/usage-error.ts'
import { watch } from './data/watch.ts'
import { systemdUnit } from './service/systemd-unit.ts'
import type { Host } from './host.ts'
import type { RereadSettings } from './service/reload.ts'

/**
 * The whole program as a function of the arguments after the program's name and of the operating system. Returns the exit
 * code: 0 success, 1 failure, 2 usage error or bad settings, 3 partial success.
 */
export async function run(
  args: string[],
  host: Host,
  implementations: Commands = realCommands,
): Promise<number> {
  const [command, ...rest] = args
  if (command === undefined) {
    host.stderr.write(generalHelp)
    return 2
  }
  if (command === 'help' && rest.length > 0) return run([...rest, '--help'], host)
  if (['help', '--help', '-h'].includes(command)) return print(host, generalHelp)
  if (['version', '--version', '-V'].includes(command))
    return print(host, `${name} ${version} (commit ${commit})\n`)
  if (!isCommand(command)) return complain(host, null, describeUnknown(command))
  const given = readArguments(commands[command], rest)
  if ('error' in given) return complain(host, command, given.error)
  const { options, words } = given
  if (options.has('help')) return print(host, commandHelp(command))
  const { problems, trusting } = scrubEnvironment(connecting.has(command) ? host.environment : {})
  for (const problem of problems) host.stderr.write(`${problem}\n`)
  if (problems.length > 0) return 2

  const [path = null] = options.get('config') ?? []
  switch (command) {
    case 'init':
      return print(host, annotatedIni(host.randomBytes(32).toHex()))
    case 'systemd-unit':
      return print(host, systemdUnit(path, host))
    case 'completion':
      return print(host, completionScript(words[0] as Shell))
    case 'healthcheck': {
      const [url] = options.get('url') ?? []
      if (url === undefined) return complain(host, command, '--url is missing')
      return healthcheck(url, options.has('deep'), host)
    }
    case 'serve': {
      const reread: RereadSettings = (report) => loadSettings(path, host, [], report)?.settings ?? null
      const supervisor = host.processes?.supervisor
      const settings = supervisor
        ? await supervisor.askSettings()
        : loadSettings(path, host, trusting)?.settings
      return settings ? implementations.serve(settings, host, reread) : 2
    }
    case 'check':
      return check(path, trusting, options, host, implementations.probe)
    case 'sandbox': {
      const choices = readSandboxOptions(options)
      if (typeof choices === 'string') return complain(host, command, choices)
      return implementations.sandbox(choices, host)
    }
    default:
      try {
        return await dataCommands[command](options, words, host)
      } catch (error) {
        if (error instanceof UsageError) return complain(host, command, error.message)
        throw error
      }
  }
}

/** The commands for the owner of an account. */
const dataCommands: Record<
  (typeof dataCommandNames)[number],
  (options: GivenOptions, words: string[], host: Host) => Promise<number>
> = {
  connect: (options, _, host) => connect(options, host),
  disconnect: (options, _, host) => disconnect(options, host),
  ls,
  export: exportData,
  backup,
  restore,
  add,
  watch,
  open: (options, _, host) => open(options, host),
}

/** The commands that make connections. */
const connecting = new Set<string>(['serve', 'sandbox', 'check', 'healthcheck', ...dataCommandNames])

function isCommand(word: string): word is CommandName {
  return Object.hasOwn(commands, word)
}

function complain(host: Host, command: CommandName | null, error: string): number {
  const help = command === null ? `${name} --help` : `${name} ${command} --help`
  host.stderr.write(`${name}: ${error}\nTry "${help}".\n`)
  return 2
}

function describeUnknown(argument: string): string {
  const meant = nearest(argument, [...Object.keys(commands), 'help', 'version'])
  const kind = argument.startsWith('-') ? 'option' : 'command'
  return `unknown ${kind} ${JSON.stringify(argument)}${meant ? `: did you mean ${meant}?` : ''}`
}

export type Commands = typeof realCommands

/** The commands that start something or connect to others. They return the exit code. */
const realCommands = { serve, sandbox, probe }

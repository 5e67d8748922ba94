import { canonicalCollection } from '../domain/record.ts'
import { annotatedIni } from '../settings/settings-text.ts'
import { nearest } from '../settings/spelling.ts'
import { commit, name, version } from '../version.ts'
import { check, probe } from './check.ts'
import { commandHelp, commands, generalHelp, usualSettingsFile, readArguments } from './command-line.ts'
import { completionScript } from './completion.ts'
import { healthcheck } from './healthcheck.ts'
import { loadSettings, scrubEnvironment } from './load-settings.ts'
import { sandbox } from './sandbox.ts'
import { serve } from './serve.ts'
import { systemdUnit } from './systemd-unit.ts'

import type { Arguments, CommandDescription, CommandName, GivenOptions } from './command-line.ts'
import type { Shell } from './completion.ts'
import type { Host } from './host.ts'
import type { SandboxOptions } from './sandbox.ts'
import type { RereadSettings } from './reload.ts'

/**
 * The whole program as a function of the arguments after the program's name and of the operating system. Returns the exit
 * code: 0 success, 1 failure, 2 wrong arguments or bad settings.
 */
export async function run(
  args: string[],
  host: Host,
  implementations: Commands = realCommands,
): Promise<number> {
  const [first, ...rest] = args
  switch (first) {
    case undefined:
      host.stderr.write(generalHelp)
      return 2
    case '--help':
    case '-h':
      return print(host, generalHelp)
    case 'help':
      return help(rest, host)
    case '--version':
    case '-V':
    case 'version':
      return print(host, `${name} ${version} (commit ${commit})\n`)
  }
  if (!isCommand(first)) return complain(host, null, describeUnknown(first))
  const description: CommandDescription = commands[first]
  const options = { ...description.options, help: { meaning: 'shows this' } }
  const given = readArguments(rest, { ...description, options })
  if ('error' in given) return complain(host, first, given.error)
  if (given.options.has('help')) return print(host, commandHelp(first))
  return start(first, given, host, implementations)
}

function isCommand(word: string): word is CommandName {
  return Object.hasOwn(commands, word)
}

async function help([command, ...more]: string[], host: Host): Promise<number> {
  if (command === undefined) return print(host, generalHelp)
  if (more.length > 0) return complain(host, null, `unexpected argument ${JSON.stringify(more[0])}`)
  return isCommand(command)
    ? print(host, commandHelp(command))
    : complain(host, null, describeUnknown(command))
}

/** The commands that make connections. */
const connecting = new Set<CommandName>(['serve', 'sandbox', 'check', 'healthcheck'])

async function start(
  command: CommandName,
  { options, argument }: Arguments,
  host: Host,
  implementations: Commands,
): Promise<number> {
  const value = (option: string) => options.get(option)?.[0] ?? null
  if (command === 'serve' || command === 'sandbox') host.restartForFetchSlots?.()
  const { problems, trusting } = scrubEnvironment(connecting.has(command) ? host.environment : {})
  for (const problem of problems) host.stderr.write(`${problem}\n`)
  if (problems.length > 0) return 2

  switch (command) {
    case 'init':
      return print(host, annotatedIni(host.randomBytes(32).toHex()))
    case 'systemd-unit':
      return print(host, systemdUnit(value('config') ?? usualSettingsFile, host))
    case 'completion':
      return print(host, completionScript(argument as Shell))
    case 'healthcheck': {
      const url = value('url')
      return url === null
        ? complain(host, command, '--url is missing')
        : healthcheck(url, options.has('deep'), host)
    }
    case 'serve': {
      const reread: RereadSettings = (report) =>
        loadSettings(value('config'), host, [], report)?.settings ?? null
      const loaded = loadSettings(value('config'), host, trusting)
      return loaded ? implementations.serve(loaded.settings, host, reread) : 2
    }
    case 'check': {
      const how = {
        isOffline: options.has('offline'),
        asJson: options.has('json'),
        isQuiet: options.has('quiet'),
      }
      return check({ path: value('config'), trusting, ...how }, host, implementations.probe)
    }
    case 'sandbox': {
      const choices = readSandboxOptions(options)
      return typeof choices === 'string'
        ? complain(host, command, choices)
        : implementations.sandbox(choices, host)
    }
    default:
      return command satisfies never
  }
}

/** 1 when the text can't be written; a reader that has left is no failure. */
async function print(host: Host, text: string): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<Error | null>()
  host.stdout.write(text, (error) => resolve(error ?? null))
  const error = await promise
  const code = (error as { code?: unknown } | null)?.code
  if (!error || code === 'EPIPE') return 0
  host.stderr.write(`${name}: cannot write to the standard output: ${String(code ?? error.message)}\n`)
  return 1
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

const maxSeedCount = 1_000_000

/** The options, or what is wrong with them. */
function readSandboxOptions(options: GivenOptions): SandboxOptions | string {
  const ports: Record<string, number | null> = {}
  for (const option of ['port', 'token-port', 'storage-port']) {
    const text = options.get(option)?.[0]
    if (text !== undefined && !(/^\d{1,5}$/.test(text) && Number(text) <= 65_535)) {
      return `--${option} ${JSON.stringify(text)} is not a port: write a number from 0 to 65535`
    }
    ports[option] = text === undefined ? null : Number(text)
  }

  const seed = new Map<string, number>()
  for (const text of options.get('seed') ?? []) {
    const match = /^(.+)=(\d{1,7})$/.exec(text)
    const collection = match ? canonicalCollection(match[1]!) : null
    const count = Number(match?.[2])
    if (collection === null || count > maxSeedCount) {
      return `--seed ${JSON.stringify(text)} is not COLLECTION=COUNT, with a count up to ${maxSeedCount}`
    }
    seed.set(collection, count)
  }
  return {
    upstreamOnly: options.has('upstream-only'),
    isEmpty: options.has('empty'),
    log: options.has('log'),
    port: ports.port!,
    tokenPort: ports['token-port']!,
    storagePort: ports['storage-port']!,
    seed,
  }
}

export type Commands = typeof realCommands

/** The commands that start something or connect to others. They answer the exit code. */
const realCommands = { serve, sandbox, probe }

import { canonicalCollection } from '../domain/record.ts'
import { nearest } from '../settings/spelling.ts'
import { commit, name, version } from '../version.ts'
import {
  bashCompletion,
  commandHelp,
  commands,
  generalHelp,
  usualSettingsFile,
  readArguments,
} from './command-line.ts'
import { loadSettings, scrubEnvironment } from './load-settings.ts'

import type { Settings } from '../settings/settings.ts'
import type { CommandName, GivenOptions } from './command-line.ts'
import type { Host, Output } from './host.ts'
import type { SandboxOptions } from './sandbox.ts'
import type { RereadSettings } from './lifecycle.ts'

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
  const given = readArguments(rest, { ...commands[first].options, help: 'flag' })
  if ('error' in given) return complain(host, first, given.error)
  if (given.options.has('help')) return print(host, commandHelp(first))
  return start(first, given.options, host, implementations)
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

async function start(
  command: CommandName,
  options: GivenOptions,
  host: Host,
  implementations: Commands,
): Promise<number> {
  const value = (option: string) => options.get(option)?.[0] ?? null
  switch (command) {
    case 'init': {
      const { annotatedIni } = await import('../settings/settings-text.ts')
      return print(host, annotatedIni(host.randomBytes(32).toHex()))
    }
    case 'systemd-unit': {
      const { systemdUnit } = await import('./systemd-unit.ts')
      return print(host, systemdUnit(value('config') ?? usualSettingsFile, host))
    }
    case 'completion':
      return print(host, bashCompletion())
    case 'healthcheck': {
      const url = value('url')
      if (url === null) return complain(host, command, '--url is missing')
      const { healthcheck } = await import('./healthcheck.ts')
      return withCleanEnvironment(host, () => healthcheck(url, options.has('deep'), host))
    }
    case 'serve':
      return withCleanEnvironment(host, async (trusting) => {
        const loaded = await loadSettings(value('config'), host, trusting)
        return loaded ? implementations.serve(loaded.settings, host, rereadFrom(value('config'), host)) : 2
      })
    case 'check':
      return withCleanEnvironment(host, async (trusting) => {
        const { check } = await import('./check.ts')
        const choices = {
          isOffline: options.has('offline'),
          asJson: options.has('json'),
          isQuiet: options.has('quiet'),
        }
        return check({ path: value('config'), trusting, ...choices }, host, implementations.createProbes)
      })
    case 'sandbox':
      return withCleanEnvironment(host, () => {
        const sandbox = readSandboxOptions(options)
        return typeof sandbox === 'string'
          ? complain(host, command, sandbox)
          : implementations.sandbox(sandbox, host)
      })
    default:
      return command satisfies never
  }
}

/** Runs a command that makes connections; `trusting` are the variables that added trusted certificates. */
async function withCleanEnvironment(
  host: Host,
  command: (trusting: string[]) => Promise<number> | number,
): Promise<number> {
  const { problems, trusting } = scrubEnvironment(host.environment)
  for (const problem of problems) host.stderr.write(`${problem}\n`)
  return problems.length > 0 ? 2 : command(trusting)
}

/** Reads the same settings again later; reports line by line what would go to stderr. */
function rereadFrom(path: string | null, host: Host): RereadSettings {
  return async (report) => {
    const stderr: Output = { isTty: false, isJournal: false, write: (text) => report(text.trimEnd()) }
    const loaded = await loadSettings(path, { ...host, stderr }, [])
    return loaded?.settings ?? null
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
    port: ports.port!,
    tokenPort: ports['token-port']!,
    storagePort: ports['storage-port']!,
    seed,
  }
}

export type Commands = typeof realCommands

/**
 * The commands that start something or connect to others. They answer the exit code. Each is loaded when it is run, so that
 * a health check every few seconds does not load a server.
 */
const realCommands = {
  async serve(settings: Settings, host: Host, reread: RereadSettings) {
    const { serve } = await import('./serve.ts')
    return serve(settings, host, reread)
  },
  async sandbox(options: SandboxOptions, host: Host) {
    const { sandbox } = await import('./sandbox.ts')
    return sandbox(options, host)
  },
  async createProbes(settings: Settings, host: Host) {
    const { createProbes } = await import('./check.ts')
    return createProbes(settings, host)
  },
}

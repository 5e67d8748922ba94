import { canonicalCollection } from '../domain/record.ts'
import { nearest } from '../settings/spelling.ts'
import { commit, name, version } from '../version.ts'
import { readArguments } from './arguments.ts'
import { scrubEnvironment } from './environment.ts'
import { commandHelp, commands, generalHelp } from './help.ts'
import { loadSettings } from './load-settings.ts'
import { realPrograms } from './programs.ts'

import type { GivenOptions } from './arguments.ts'
import type { CommandName } from './help.ts'
import type { Host, Output } from './host.ts'
import type { Programs, SandboxOptions } from './programs.ts'
import type { RereadSettings } from './lifecycle.ts'

/**
 * The whole program as a function: the arguments after the program's name, and the world. Answers the exit code:
 * 0 success, 1 failure, 2 called wrongly or with bad settings.
 */
export async function run(args: string[], host: Host, programs: Programs = realPrograms): Promise<number> {
  const [first, ...rest] = args
  if (first === undefined) {
    host.stderr.write(generalHelp)
    return 2
  }
  if (first === '--help' || first === '-h') return print(host, generalHelp)
  if (first === '--version' || first === '-V') return print(host, `${name} ${version} (commit ${commit})\n`)
  if (!Object.hasOwn(commands, first)) return complain(host, null, describeUnknown(first))

  const command = first as CommandName
  const given = readArguments(rest, { ...commands[command].options, help: 'flag' })
  if ('error' in given) return complain(host, command, given.error)
  if (given.options.has('help')) return print(host, commandHelp(command))
  return start(command, given.options, host, programs)
}

async function start(
  command: CommandName,
  options: GivenOptions,
  host: Host,
  programs: Programs,
): Promise<number> {
  const value = (option: string) => options.get(option)?.[0] ?? null
  // What a service does not need is loaded by who asks for it.
  if (command === 'init') {
    const { init } = await import('./init.ts')
    return init(host)
  }
  if (command === 'systemd-unit') {
    const { systemdUnit, usualSettingsFile } = await import('./systemd-unit.ts')
    return systemdUnit(value('config') ?? usualSettingsFile, host)
  }

  const { problems, trusting } = scrubEnvironment(host.environment)
  if (problems.length > 0) {
    for (const problem of problems) host.stderr.write(`${problem}\n`)
    return 2
  }
  switch (command) {
    case 'serve': {
      const loaded = loadSettings(value('config'), host, trusting)
      return loaded ? programs.serve(loaded.settings, host, rereadFrom(value('config'), host)) : 2
    }
    case 'check': {
      const { check } = await import('./check.ts')
      return check(value('config'), host, trusting, programs.createProbes)
    }
    case 'sandbox': {
      const sandbox = readSandboxOptions(options)
      return typeof sandbox === 'string' ? complain(host, command, sandbox) : programs.sandbox(sandbox, host)
    }
    case 'healthcheck': {
      const url = value('url')
      if (url === null) return complain(host, command, '--url is missing')
      const { healthcheck } = await import('./healthcheck.ts')
      return healthcheck(url, host)
    }
    default:
      return command satisfies never
  }
}

/** Reads the same settings later; what would go to stderr is reported line by line. */
function rereadFrom(path: string | null, host: Host): RereadSettings {
  return (report) => {
    const stderr: Output = { isTty: false, isJournal: false, write: (text) => report(text.trimEnd()) }
    return loadSettings(path, { ...host, stderr }, [])?.settings ?? null
  }
}

function print(host: Host, text: string): number {
  host.stdout.write(text)
  return 0
}

function complain(host: Host, command: CommandName | null, error: string): number {
  const help = command === null ? `${name} --help` : `${name} ${command} --help`
  host.stderr.write(`${name}: ${error}\nTry "${help}".\n`)
  return 2
}

function describeUnknown(argument: string): string {
  const meant = nearest(argument, Object.keys(commands))
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

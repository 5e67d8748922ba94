import { usualSettingsFile } from './systemd-unit.ts'

import type { OptionKinds } from './arguments.ts'

interface CommandDescription {
  options: OptionKinds
  /** The options as they are shown behind the command's name. */
  usage: string
  summary: string
  details: string
}

/** Every command with its options, in the order in which they are shown. */
export const commands = {
  serve: {
    options: { config: 'value' },
    usage: '--config FILE',
    summary: 'run the service in the foreground',
    details: `  --config FILE   settings; without it they come from the environment (SERVICE_<NAME>) alone

SIGTERM lets running requests end and exits 0; SIGHUP reads the settings again.`,
  },
  sandbox: {
    options: {
      'upstream-only': 'flag',
      port: 'value',
      'token-port': 'value',
      'storage-port': 'value',
      seed: 'list',
    },
    usage: '[OPTIONS]',
    summary: 'run the service over an embedded Sync storage, to try it out',
    details: `  --upstream-only            only the storage and the token server, without the service
  --port N                   port of the service
  --token-port N             port of the token server
  --storage-port N           port of the storage
  --seed COLLECTION=COUNT    sample records; may be given several times

Everything listens on loopback, lives in memory and is gone at the end.`,
  },
  check: {
    options: { config: 'value' },
    usage: '--config FILE',
    summary: 'validate the settings, and try token server and cache',
    details: `  --config FILE   settings; without it they come from the environment (SERVICE_<NAME>) alone

Prints the settings as they count, with secrets masked. Exits 0 if all is well, otherwise 2.`,
  },
  init: {
    options: {},
    usage: '',
    summary: 'print a settings file to begin with, with a fresh secret',
    details: 'It lacks only the address of the token server.',
  },
  'systemd-unit': {
    options: { config: 'value' },
    usage: '[--config FILE]',
    summary: 'print a hardened unit for systemd',
    details: `  --config FILE   settings file that the unit names; ${usualSettingsFile} by default`,
  },
  healthcheck: {
    options: { url: 'value' },
    usage: '--url URL',
    summary: 'ask a running service whether it is well',
    details: `  --url URL   where the service is, such as http://127.0.0.1:8000

Exits 0 if its heartbeat answers 200 within five seconds, otherwise 1.`,
  },
} satisfies Record<string, CommandDescription>

export type CommandName = keyof typeof commands

const descriptions: [string, CommandDescription][] = Object.entries(commands)

const usageWidth = Math.max(...descriptions.map(([name, { usage }]) => `${name} ${usage}`.length))

/** What `--help` shows. */
export const generalHelp = `Sync Bridge serves a Firefox Sync storage through the Kinto record-storage protocol.

Usage: sync-bridge COMMAND [OPTIONS]

${descriptions.map(([name, { usage, summary }]) => `  ${`${name} ${usage}`.padEnd(usageWidth)}  ${summary}`).join('\n')}

  ${'-h, --help'.padEnd(usageWidth)}  show this; after a command, its options
  ${'-V, --version'.padEnd(usageWidth)}  show the version

Exit codes: 0 success, 1 failure, 2 called wrongly or bad settings.
A first look: sync-bridge sandbox
`

/** What `COMMAND --help` shows. */
export function commandHelp(name: CommandName): string {
  const { usage, summary, details }: CommandDescription = commands[name]
  const sentence = summary[0]!.toUpperCase() + summary.slice(1)
  return `${sentence}.\n\nUsage: ${`sync-bridge ${name} ${usage}`.trimEnd()}\n\n${details}\n`
}

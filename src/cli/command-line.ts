import { nearest } from '../settings/spelling.ts'

/** The form of an option: without a value, with one, or with a value and several times. */
type OptionKind = 'flag' | 'value' | 'list'

type OptionKinds = Record<string, OptionKind>

/** The options given, by name without dashes. An option that was not given is absent; a flag has no values. */
export type GivenOptions = Map<string, string[]>

/** The settings file where no other is named. */
export const usualSettingsFile = '/etc/sync-bridge/sync-bridge.ini'

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

SIGTERM answers the requests in flight and exits 0. SIGHUP reads the settings again. SIGUSR2 starts this
executable anew, which takes over the port.`,
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
    options: { config: 'value', offline: 'flag', json: 'flag', quiet: 'flag' },
    usage: '--config FILE [OPTIONS]',
    summary: 'validate the settings, and try token server, cache and address',
    details: `  --config FILE   settings; without it they come from the environment (SERVICE_<NAME>) alone
  --offline       validate the settings and ask nobody
  --json          print one JSON object, for programs
  --quiet         print only what is wrong

Prints the settings as they count, with secrets masked, and the verdicts to the standard error. Exits 0 if all is
well, otherwise 2.`,
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
    options: { url: 'value', deep: 'flag' },
    usage: '--url URL [--deep]',
    summary: 'ask a running service whether it is alive',
    details: `  --url URL   where the service is, such as http://127.0.0.1:8000
  --deep      ask also whether the token server and the cache answer

Exits 0 if the service answers 200 within five seconds, otherwise 1.`,
  },
  completion: {
    options: {},
    usage: '',
    summary: 'print completions for bash',
    details: 'To use them in this shell: eval "$(sync-bridge completion)"',
  },
} satisfies Record<string, CommandDescription>

export type CommandName = keyof typeof commands

const descriptions: [string, CommandDescription][] = Object.entries(commands)

const usageWidth = Math.max(...descriptions.map(([name, { usage }]) => `${name} ${usage}`.length))

/** What `--help` shows. */
export const generalHelp = `Sync Bridge serves a Firefox Sync storage through the Kinto record-storage protocol.

Usage: sync-bridge COMMAND [OPTIONS]

${descriptions.map(([name, { usage, summary }]) => `  ${`${name} ${usage}`.padEnd(usageWidth)}  ${summary}`).join('\n')}

  ${'help [COMMAND]'.padEnd(usageWidth)}  show this, or the options of a command; also --help and -h
  ${'version'.padEnd(usageWidth)}  show the version; also --version and -V

Exit codes: 0 success, 1 failure, 2 called wrongly or bad settings.
A first look: sync-bridge sandbox
`

/** What `COMMAND --help` shows. */
export function commandHelp(name: CommandName): string {
  const { usage, summary, details }: CommandDescription = commands[name]
  const sentence = summary[0]!.toUpperCase() + summary.slice(1)
  return `${sentence}.\n\nUsage: ${`sync-bridge ${name} ${usage}`.trimEnd()}\n\n${details}\n`
}

/** What `completion` prints. */
export function bashCompletion(): string {
  const names = descriptions.map(([name]) => name)
  const cases = descriptions
    .filter(([, { options }]) => Object.keys(options).length > 0)
    .map(
      ([name, { options }]) =>
        `    ${name}) words="${Object.keys(options)
          .map((option) => `--${option}`)
          .join(' ')} --help" ;;`,
    )
  return `# Completions of sync-bridge for bash
_sync_bridge() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words="--help"
  COMPREPLY=()
  [ "\${COMP_WORDS[COMP_CWORD - 1]}" = --config ] && return
  if [ "$COMP_CWORD" = 1 ]; then
    words="${[...names, 'help', 'version'].join(' ')}"
  else
    case "\${COMP_WORDS[1]}" in
    help) words="${names.join(' ')}" ;;
${cases.join('\n')}
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _sync_bridge sync-bridge
`
}

/** Reads `--name value`, `--name=value` and `--name`. Every other form is an error, whose message names the argument. */
export function readArguments(
  args: string[],
  kinds: OptionKinds,
): { options: GivenOptions } | { error: string } {
  const options: GivenOptions = new Map()
  for (let index = 0; index < args.length; index++) {
    const argument = args[index]!
    const match = /^(?:--([^=]+)|(-h))(?:=(.*))?$/s.exec(argument)
    if (!match) return { error: `unexpected argument ${JSON.stringify(argument)}` }

    const name = match[1] ?? 'help'
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined
    if (kind === undefined) {
      const meant = nearest(name, Object.keys(kinds))
      return {
        error: `unknown option ${JSON.stringify(`--${name}`)}${meant ? `: did you mean --${meant}?` : ''}`,
      }
    }
    const values = options.get(name)
    if (values && kind !== 'list') return { error: `--${name} is given twice` }
    if (kind === 'flag') {
      if (match[3] !== undefined) return { error: `--${name} takes no value` }
      options.set(name, [])
      continue
    }

    const following = args[index + 1]
    if (match[3] === undefined && following !== undefined && !following.startsWith('--')) index++
    const value = match[3] ?? (following?.startsWith('--') ? undefined : following)
    if (!value) return { error: `--${name} needs a value` }
    options.set(name, [...(values ?? []), value])
  }
  return { options }
}

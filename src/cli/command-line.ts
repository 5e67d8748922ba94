import { parseArgs } from 'node:util'
import { nearest } from '../settings/spelling.ts'

interface OptionDescription {
  /** What has to follow it, as it is shown; absent for a flag. `FILE` is the name of a file. */
  value?: string
  /** Whether it may be given several times. */
  isList?: true
  meaning: string
}

interface WordDescription {
  name: string
  /** The only words that are allowed; any word without it. */
  choices?: string[]
  /** Whether it may be left out; only the last words may. */
  isOptional?: true
}

/** The options given, by name without dashes. An option that was not given is absent; a flag has no values. */
export type GivenOptions = Map<string, string[]>

/** The settings file where no other is named. */
export const usualSettingsFile = '/etc/sync-bridge/sync-bridge.ini'

export interface CommandDescription {
  /** What follows the command's name, in short. */
  usage: string
  summary: string
  options: Record<string, OptionDescription>
  /** The words that follow, in this order. */
  words?: WordDescription[]
  details?: string
}

const config = {
  value: 'FILE',
  meaning: 'settings; without it they come from the environment (SERVICE_<NAME>) alone',
}

/** Every command with its options, in the order in which they are shown. */
export const commands = {
  serve: {
    usage: '--config FILE',
    summary: 'run the service in the foreground',
    options: { config },
    details: `SIGTERM answers the requests in flight and exits 0. SIGHUP reads the settings again. SIGUSR2 starts this
executable anew, which takes over the port.`,
  },
  sandbox: {
    usage: '[OPTIONS]',
    summary: 'run the service over an embedded Sync storage, to try it out',
    options: {
      'upstream-only': { meaning: 'only the storage and the token server, without the service' },
      empty: { meaning: 'no sample data: a place to try a restore' },
      log: { meaning: 'show the requests to the service' },
      port: { value: 'N', meaning: 'port of the service' },
      'token-port': { value: 'N', meaning: 'port of the token server' },
      'storage-port': { value: 'N', meaning: 'port of the storage' },
      seed: {
        value: 'COLLECTION=COUNT',
        isList: true,
        meaning: 'so many more sample records; may be given several times',
      },
    },
    details: 'Everything listens on loopback, lives in memory and is gone at the end.',
  },
  check: {
    usage: '--config FILE [OPTIONS]',
    summary: 'validate the settings, and try token server, cache and address',
    options: {
      config,
      offline: { meaning: 'validate the settings and ask nobody' },
      json: { meaning: 'print one JSON object, for programs' },
      quiet: { meaning: 'print only what is wrong' },
    },
    details: `Prints the verdicts to the standard error, then the effective settings, with secrets masked. Exits 0 if all is
well, otherwise 2.`,
  },
  init: {
    usage: '',
    summary: 'print a settings file to begin with, with a fresh secret',
    options: {},
    details: 'It lacks only the address of the token server.',
  },
  'systemd-unit': {
    usage: '[--config FILE]',
    summary: 'print a hardened unit for systemd',
    options: {
      config: { ...config, meaning: `settings file that the unit names; ${usualSettingsFile} by default` },
    },
  },
  healthcheck: {
    usage: '--url URL [--deep]',
    summary: 'ask a running service whether it is alive',
    options: {
      url: { value: 'URL', meaning: 'where the service is, such as http://127.0.0.1:8000' },
      deep: { meaning: 'ask also whether the token server and the cache answer' },
    },
    details: 'Exits 0 if the service answers 200 within five seconds, otherwise 1.',
  },
  completion: {
    usage: 'SHELL',
    summary: 'print completions for bash, zsh or fish',
    options: {},
    words: [{ name: 'SHELL', choices: ['bash', 'zsh', 'fish'] }],
    details: `To use them at once: eval "$(sync-bridge completion bash)", the same with zsh, or in fish
sync-bridge completion fish | source`,
  },
} satisfies Record<string, CommandDescription>

export type CommandName = keyof typeof commands

/** The commands with their names. */
export const descriptions: [string, CommandDescription][] = Object.entries(commands)

/** What `--help` shows. */
export const generalHelp = `Sync Bridge serves a Firefox Sync storage through the Kinto record-storage protocol.

Usage: sync-bridge COMMAND [OPTIONS]

${columns([
  ...descriptions.map(([name, { usage, summary }]): [string, string] => [`${name} ${usage}`, summary]),
  ['', ''],
  ['help [COMMAND]', 'show this, or the options of a command; also --help and -h'],
  ['version', 'show the version; also --version and -V'],
])}

Exit codes: 0 success, 1 failure, 2 called wrongly or bad settings.
A first look: sync-bridge sandbox
`

/** What `COMMAND --help` shows. */
export function commandHelp(name: CommandName): string {
  const { usage, summary, options, details }: CommandDescription = commands[name]
  const paragraphs = [
    `${summary[0]!.toUpperCase()}${summary.slice(1)}.`,
    `Usage: sync-bridge ${name} ${usage}`.trimEnd(),
    columns(
      Object.entries(options).map(([option, { value, meaning }]) => [`--${option} ${value ?? ''}`, meaning]),
    ),
    details,
  ]
  return `${paragraphs.filter(Boolean).join('\n\n')}\n`
}

function columns(rows: [left: string, right: string][]): string {
  const width = Math.max(...rows.map(([left]) => left.trimEnd().length))
  return rows.map(([left, right]) => `  ${left.trimEnd().padEnd(width)}  ${right}`.trimEnd()).join('\n')
}

/**
 * Reads what follows a command: `--name value`, `--name=value`, `--name`, and words. Every other form is an error, whose message
 * names the argument. With `--help` no word has to follow.
 */
export function readArguments(
  { options: own, words: described = [] }: CommandDescription,
  args: string[],
): { options: GivenOptions; words: string[] } | { error: string } {
  const known: CommandDescription['options'] = { ...own, help: { meaning: 'shows this' } }
  const kinds = Object.entries(known).map(([name, { value }]) => {
    return [name, { type: value ? 'string' : 'boolean', ...(name === 'help' && { short: 'h' }) }] as const
  })
  const { tokens } = parseArgs({ args, options: Object.fromEntries(kinds), strict: false, tokens: true })
  const options: GivenOptions = new Map()
  const words: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional' && words.length < described.length) {
      words.push(token.value)
      continue
    }
    if (token.kind !== 'option') return { error: `unexpected argument ${JSON.stringify(args[token.index])}` }
    const { name, rawName, value } = token
    const option = Object.hasOwn(known, name) ? known[name] : undefined
    if (!option) {
      const meant = nearest(name, Object.keys(known))
      const hint = meant ? `: did you mean --${meant}?` : ''
      return { error: `unknown option ${JSON.stringify(rawName)}${hint}` }
    }
    if (options.has(name) && !option.isList) return { error: `--${name} is given twice` }
    if (!option.value && value !== undefined) return { error: `--${name} takes no value` }
    const isOption = !token.inlineValue && value?.startsWith('--')
    if (option.value && (!value || isOption)) return { error: `--${name} needs a value` }
    options.set(name, [...(options.get(name) ?? []), ...(value ? [value] : [])])
  }
  const problem = options.has('help') ? null : wordProblem(described, words)
  return problem === null ? { options, words } : { error: problem }
}

function wordProblem(described: WordDescription[], words: string[]): string | null {
  for (const [index, { name, choices, isOptional }] of described.entries()) {
    const word = words[index]
    const remedy = choices ? `: write ${choices.join(' or ')}` : ''
    if (word === undefined) {
      if (!isOptional) return `${name} is missing${remedy}`
    } else if (choices && !choices.includes(word))
      return `${name} ${JSON.stringify(word)} is unknown${remedy}`
  }
  return null
}

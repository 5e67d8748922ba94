import { parseArgs } from 'node:util'
import { nearest } from '../settings/spelling.ts'
import { exportFormats } from '../client/export-formats.ts'

interface OptionDescription {
  /** The placeholder of its value, as shown; absent for a flag. `FILE` is the name of a file. */
  value?: string
  /** Whether it may be given several times. */
  isList?: true
  meaning: string
}

interface WordDescription {
  name: string
  /** The allowed words; absent: any word. */
  choices?: string[]
  /** Whether it may be omitted; only for the last words. */
  isOptional?: true
  /** Whether any number is allowed, also none; only for the last word. */
  isList?: true
}

/** The options given, by name without dashes. An option that was not given is absent; a flag has no values. */
export type GivenOptions = Map<string, string[]>

/** The default settings file. */
export const defaultSettingsFile = '/etc/sync-bridge/sync-bridge.ini'

export interface CommandDescription {
  /** The arguments, as shown in the usage line. */
  usage: string
  summary: string
  options: Record<string, OptionDescription>
  /** The positional arguments, in order. */
  words?: WordDescription[]
  details?: string
}

const config = {
  value: 'FILE',
  meaning: 'the settings file; without it, only the environment counts (SERVICE_<NAME>)',
}

const account = {
  value: 'FILE',
  meaning: 'the account; $SYNC_BRIDGE_ACCOUNT or ~/.config/sync-bridge/account.env by default',
}
const since = {
  value: 'DATE',
  meaning: 'only what has changed since: 2026-01-31, or how long ago, such as 12h or 7d',
}

const ownBridge = `\n\nStarts a bridge inside its own process. Set BRIDGE_URL in the environment to use a running one.`

/** Every command with its options, in the order in which they are shown. */
export const commands = {
  serve: {
    usage: '--config FILE',
    summary: 'run the service in the foreground',
    options: { config },
    details: `SIGTERM finishes the requests in flight and exits 0. SIGHUP reloads the settings. SIGUSR2 starts a new
process of this executable, which takes over the port.`,
  },
  sandbox: {
    usage: '[OPTIONS]',
    summary: 'run the service with an embedded Sync storage, to try it out',
    options: {
      'upstream-only': { meaning: 'only the storage and the token server, without the service' },
      empty: { meaning: 'no sample data, to try a restore' },
      log: { meaning: 'show the requests to the service' },
      port: { value: 'N', meaning: 'port of the service' },
      'token-port': { value: 'N', meaning: 'port of the token server' },
      'storage-port': { value: 'N', meaning: 'port of the storage' },
      seed: {
        value: 'COLLECTION=COUNT',
        isList: true,
        meaning: 'add that many sample records; may be given several times',
      },
    },
    details: 'Everything listens on loopback and is kept in memory only.',
  },
  check: {
    usage: '--config FILE [OPTIONS]',
    summary: 'validate the settings, and test token server, cache and address',
    options: {
      config,
      offline: { meaning: 'only validate the settings, without connecting to anything' },
      json: { meaning: 'print one JSON object, for programs' },
      quiet: { meaning: 'print only problems' },
    },
    details: `Prints the results to standard error, then the effective settings with masked secrets to standard output. Exits 0
if there are no problems, otherwise 2.`,
  },
  init: {
    usage: '',
    summary: 'print an initial settings file with a new secret',
    options: {},
    details: 'You only have to add the address of the token server.',
  },
  'systemd-unit': {
    usage: '[--config FILE]',
    summary: 'print a hardened unit for systemd',
    options: {
      config: { ...config, meaning: `settings file that the unit names; ${defaultSettingsFile} by default` },
    },
  },
  healthcheck: {
    usage: '--url URL [--deep]',
    summary: 'check that a running service responds',
    options: {
      url: { value: 'URL', meaning: 'URL of the service, such as http://127.0.0.1:8000' },
      deep: { meaning: 'check the token server and the cache, too' },
    },
    details: 'Exits 0 if the service returns 200 within five seconds, otherwise 1.',
  },
  connect: {
    usage: '[OPTIONS]',
    summary: 'connect your account, with the values that your Firefox prints',
    options: {
      account,
      'token-server': {
        value: 'URL',
        meaning: 'your own token server; default: the one that Firefox prints',
      },
    },
    details: `Shows the recipe to paste into Firefox, reads its output from the terminal or standard input, tests the values, and
saves them in a file that only you can read.`,
  },
  disconnect: {
    usage: '',
    summary: 'revoke the access, and remove the account file',
    options: { account },
  },
  ls: {
    usage: '[COLLECTION] [OPTIONS]',
    summary: 'list the collections of your account, or the records of one',
    options: {
      account,
      json: { meaning: 'print one JSON object per line, for programs' },
      deleted: { meaning: 'only deletions, which other devices still have to apply' },
    },
    words: [{ name: 'COLLECTION', isOptional: true }],
    details: ownBridge.trimStart(),
  },
  export: {
    usage: 'WHAT [OPTIONS]',
    summary: 'write your data, decrypted, to standard output or a file',
    options: {
      account,
      format: {
        value: 'FORMAT',
        meaning: Object.entries(exportFormats)
          .map(([what, formats]) => `${what}: ${Object.keys(formats).join(', ')}`)
          .join('; '),
      },
      folder: { value: 'NAME', meaning: 'only this bookmarks folder, by title or id' },
      since,
      output: { value: 'FILE', meaning: 'the file to write; on failure it stays unchanged' },
      raw: { meaning: 'keep texts exact, which is not safe in spreadsheets and terminals' },
    },
    words: [{ name: 'WHAT', choices: Object.keys(exportFormats) }],
    details: `Without --format: bookmarks as HTML, which every browser imports, history and passwords as CSV, tabs and everything as JSON.
Exits 3 if something cannot be read, and lists it.${ownBridge}`,
  },
  backup: {
    usage: 'DIR [OPTIONS]',
    summary: 'back up your account into a folder',
    options: { account, keep: { value: 'N', meaning: 'how many backups to keep; 30 by default' } },
    words: [{ name: 'DIR' }],
    details: `The backup is complete, encrypted as in the storage, and verified. Only changes are downloaded. Exits 3 if something is missing,
and lists it.${ownBridge}`,
  },
  restore: {
    usage: 'DIR [COLLECTION ...] [OPTIONS]',
    summary: 'show what a backup would restore; with --write, restore it',
    options: {
      account,
      write: { meaning: 'write records that are missing, or were deleted since the backup' },
      overwrite: { meaning: 'overwrite records that differ, too' },
      'deleted-since': {
        value: 'DATE',
        meaning: 'only what was deleted since: 2026-01-31, or how long ago, such as 12h or 7d',
      },
      folder: {
        value: 'NAME',
        meaning: 'only this bookmarks folder, by title or id, with its contents',
      },
      id: { value: 'ID', isList: true, meaning: 'only this record; may be given several times' },
    },
    words: [{ name: 'DIR' }, { name: 'COLLECTION', isList: true }],
    details: `DIR is a backup, or a folder of backups, whose last complete one is used. Without COLLECTION: all but clients and tabs.
Set BACKUP_SYNC_KEY in the environment if the backup has another sync key.${ownBridge}`,
  },
  add: {
    usage: 'URL [OPTIONS]',
    summary: 'add a bookmark, the way Firefox does',
    options: {
      account,
      title: { value: 'TITLE', meaning: 'its title; the address by default' },
      folder: { value: 'NAME', meaning: 'its folder, by title or id; "Other Bookmarks" by default' },
      tag: { value: 'TAG', isList: true, meaning: 'a tag; may be given several times' },
    },
    words: [{ name: 'URL' }],
    details: `Prints the id of the bookmark.${ownBridge}`,
  },
  watch: {
    usage: '[COLLECTION ...] [OPTIONS]',
    summary: 'print a line of JSON for each change',
    options: {
      account,
      since,
      every: { value: 'SECONDS', meaning: 'how often to poll; 60 by default' },
      exec: {
        value: 'CMD',
        meaning: 'a shell command to run for each change, with the line on standard input',
      },
    },
    words: [{ name: 'COLLECTION', isList: true }],
    details: `Passwords and credit cards are watched only if you name them. Press Ctrl+C to stop.${ownBridge}`,
  },
  open: {
    usage: '',
    summary: 'show your data in your browser, decrypted there',
    options: { account },
    details: `Press Ctrl+C to stop.${ownBridge}`,
  },
  completion: {
    usage: 'SHELL',
    summary: 'print completions for bash, zsh or fish',
    options: {},
    words: [{ name: 'SHELL', choices: ['bash', 'zsh', 'fish'] }],
    details: `To load them now: eval "$(sync-bridge completion bash)", the same with zsh, or in fish
sync-bridge completion fish | source`,
  },
} satisfies Record<string, CommandDescription>

export type CommandName = keyof typeof commands

/** The commands for the owner of an account; the others are for operators. */
export const dataCommandNames = [
  'connect',
  'ls',
  'export',
  'backup',
  'restore',
  'add',
  'watch',
  'open',
  'disconnect',
] as const satisfies CommandName[]

/** The commands with their names. */
export const descriptions: [string, CommandDescription][] = Object.entries(commands)

const serviceCommandNames = [...new Set(Object.keys(commands)).difference(new Set<string>(dataCommandNames))]

/** What `--help` shows. */
export const generalHelp = `Sync Bridge serves a Firefox Sync storage through the Kinto record-storage protocol.

Usage: sync-bridge COMMAND [OPTIONS]

Your own data:
${summaries(dataCommandNames)}

A service for others:
${summaries(serviceCommandNames)}

  help COMMAND  show the options of a command; also COMMAND --help
  version       show the version; also --version and -V

Exit codes: 0 success, 1 failure, 2 usage error or bad settings, 3 partial success.
To try it: sync-bridge sandbox. With your own data: sync-bridge connect
`

function summaries(names: readonly string[]): string {
  const all: Record<string, CommandDescription> = commands
  return columns(names.map((name) => [name, all[name]!.summary]))
}

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
 * Parses the arguments of a command: `--name value`, `--name=value`, `--name`, and words. Any other form is an error that names the
 * argument. With `--help`, no word is required.
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
    if (token.kind === 'positional' && (words.length < described.length || described.at(-1)?.isList)) {
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
  for (const [index, { name, choices, isOptional, isList }] of described.entries()) {
    const word = words[index]
    const remedy = choices ? `: use ${choices.join(' or ')}` : ''
    if (word === undefined) {
      if (!isOptional && !isList) return `${name} is missing${remedy}`
    } else if (choices && !choices.includes(word))
      return `${name} ${JSON.stringify(word)} is unknown${remedy}`
  }
  return null
}

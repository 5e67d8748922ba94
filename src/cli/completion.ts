import { firefoxCollections } from '../settings/schema.ts'
import {
  Argument,
  describeCommand,
  oneOf,
  placeholderOf,
  type AnyCommand,
  type CommandFactory,
} from './command.ts'
import { print } from './output.ts'

const shells = ['bash', 'zsh', 'fish'] as const

/** The supported shells. */
export type Shell = (typeof shells)[number]

export const completionCommand: CommandFactory = (perform) =>
  describeCommand(
    'completion',
    'print completions for bash, zsh or fish',
    'To load them now: eval "$(sync-bridge completion bash)", the same with zsh, or in fish: sync-bridge completion fish | source',
  )
    .addArgument(new Argument('<SHELL>', 'your shell').choices(shells).argParser(oneOf(shells)))
    .action(
      perform((host, shell, _, command) => print(host, completionScript(shell, command.parent!.commands)), {
        connections: false,
      }),
    )

/** A word to complete, and its meaning. */
type Word = [word: string, meaning: string]

/** What may follow a command. */
interface Completion {
  command: string
  /** Its positional arguments. */
  words: Word[]
  options: Word[]
  /** The options with a value, and what it may be; null: the name of a file. */
  values: { names: string[]; meaning: string; choices: string[] | null }[]
}

/** A script that completes commands, options, their values, collections and files. */
export function completionScript(shell: Shell, commands: readonly AnyCommand[]): string {
  const names = commands.map((command): Word => [command.name(), command.summary()])
  const alone = { options: [], values: [] }
  const program: Word[] = [
    ['help', 'show the options of a command'],
    ['version', 'show the version'],
  ]
  const known: Completion[] = [
    { command: '', words: [...names, ...program], ...alone },
    { command: 'help', words: names, ...alone },
    ...commands.map(completionOf),
  ]
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](known)
}

function completionOf(command: AnyCommand): Completion {
  const options = [...command.options, { long: '--help', short: '-h', description: 'show the options' }]
  return {
    command: command.name(),
    words: command.registeredArguments.flatMap((argument) =>
      wordsFor(argument.name(), argument.argChoices).map((word): Word => [word, argument.description]),
    ),
    options: options.map(({ long, description }): Word => [long!, description]),
    values: command.options
      .filter(({ required }) => required)
      .map((option) => {
        const placeholder = placeholderOf(option)
        const choices = isFile(placeholder) ? null : wordsFor(placeholder, option.argChoices)
        return { names: namesOf(option), meaning: option.description, choices }
      }),
  }
}

function isFile(placeholder: string): boolean {
  return placeholder === 'FILE' || placeholder === 'DIR'
}

function wordsFor(placeholder: string, choices: string[] | undefined): string[] {
  return choices ?? (placeholder === 'COLLECTION' ? [...firefoxCollections] : [])
}

function namesOf({ short, long }: { short?: string; long?: string }): string[] {
  return [short, long].filter((name) => name !== undefined)
}

function alternatives(command: string, names: string[]): string {
  return names.map((name) => `'${command} ${name}'`).join('|')
}

// Without `mapfile`, which bash 3 of macOS lacks. Words without an entry are completed as files.
function bashScript(known: Completion[]): string {
  const values = known.flatMap(({ command, values: options }) =>
    options.map(({ names, choices }) => {
      return `  ${alternatives(command, names)}) words="${(choices ?? []).join(' ')}" ;;`
    }),
  )
  const words = known.flatMap(({ command, words: positional, options }) => [
    `  '${command} -'*) words="${options.map(([word]) => word).join(' ')}" ;;`,
    `  '${command} '*) words="${positional.map(([word]) => word).join(' ')}" ;;`,
  ])
  return `# Completions of sync-bridge for bash
_sync_bridge() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD - 1]}" command= words=
  # The shell splits --name=value at the equals sign.
  [ "$before" != = ] || before="\${COMP_WORDS[COMP_CWORD - 2]}"
  [ "$current" != = ] || current=
  [ "$COMP_CWORD" = 1 ] || command="\${COMP_WORDS[1]}"
  case "$command $before" in
${values.join('\n')}
  *) case "$command $current" in
${words.join('\n')}
  esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _sync_bridge sync-bridge
`
}

// The meanings contain no single quotes, and a colon only after a word.
function zshScript(known: Completion[]): string {
  const quoted = (words: Word[]) =>
    words.map(([word, meaning]) => `'${word}:${meaning.replaceAll("'", "'\\''")}'`).join(' ')
  const values = known.flatMap(({ command, values: options }) =>
    options.map(({ names, choices }) => {
      const action = choices === null ? '_files' : `compadd -- ${choices.join(' ')}`
      return `  ${alternatives(command, names)}) ${action}; return ;;`
    }),
  )
  const words = known.map(({ command, words: positional, options }) => {
    return `  '${command}') known=(${quoted([...positional, ...options])}) ;;`
  })
  return `#compdef sync-bridge
# Completions of sync-bridge for zsh; as a file in $fpath its name is _sync-bridge
_sync-bridge() {
  local command=
  local -a known
  (( CURRENT == 2 )) || command=$words[2]
  case "$command $words[CURRENT-1]" in
${values.join('\n')}
  esac
  case $command in
${words.join('\n')}
  esac
  _describe sync-bridge known
  _files
}
if [ "$funcstack[1]" = _sync-bridge ]; then _sync-bridge "$@"; else compdef _sync-bridge sync-bridge; fi
`
}

function fishScript(known: Completion[]): string {
  const lines = known.flatMap(({ command, words, options, values }) => {
    const where = command === '' ? '__fish_use_subcommand' : `'__fish_seen_subcommand_from ${command}'`
    const add = (what: string, meaning: string) =>
      `complete -c sync-bridge -n ${where} ${what} -d '${meaning.replaceAll("'", "\\'")}'`
    return [
      ...words.map(([word, meaning]) => add(`-a ${word}`, meaning)),
      ...options.map(([name, meaning]) => {
        const value = values.find(({ names }) => names.includes(name))
        if (!value) return add(`-l ${name.slice(2)}`, meaning)
        const kind = value.choices === null ? '-r -F' : `-x -a '${value.choices.join(' ')}'`
        return add(`-l ${name.slice(2)} ${kind}`, meaning)
      }),
    ]
  })
  return `# Completions of sync-bridge for fish\ncomplete -c sync-bridge -f\n${lines.join('\n')}\n`
}

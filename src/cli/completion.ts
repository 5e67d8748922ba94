import {
  Argument,
  DependentOption,
  describeCommand,
  oneOf,
  placeholderOf,
  SuggestedArgument,
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

/** The words at a place, or the name of a file. */
type Choices = Word[] | 'file'

/** What may follow a command. */
interface Completion {
  command: string
  /** Its positional arguments in order. */
  positions: { choices: Choices; isVariadic: boolean }[]
  options: Word[]
  /** The options with a value. */
  values: Value[]
}

/** What an option takes. */
interface Value {
  names: string[]
  choices: Choices
  /** What it takes after a first argument. */
  after: [first: string, choices: Choices][]
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
    { command: '', positions: [{ choices: [...names, ...program], isVariadic: false }], ...alone },
    { command: 'help', positions: [{ choices: names, isVariadic: false }], ...alone },
    ...commands.map(completionOf),
  ]
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](known)
}

function completionOf(command: AnyCommand): Completion {
  const options = [...command.options, { long: '--help', short: '-h', description: 'show the options' }]
  return {
    command: command.name(),
    positions: command.registeredArguments.map((argument) => {
      const { description, argChoices, variadic: isVariadic } = argument
      const suggested = argument instanceof SuggestedArgument ? argument.suggestions : []
      return { choices: choicesOf(argument.name(), argChoices ?? suggested, description), isVariadic }
    }),
    options: options.map(({ long, description }): Word => [long!, description]),
    values: command.options
      .filter(({ required }) => required)
      .map((option) => ({
        names: namesOf(option),
        choices: choicesOf(placeholderOf(option), option.argChoices ?? [], option.description),
        after: Object.entries(option instanceof DependentOption ? option.wordsOf : {}).map(
          ([first, words]) => [first, choicesOf('', words, option.description)],
        ),
      })),
  }
}

function choicesOf(placeholder: string, words: readonly string[], meaning: string): Choices {
  if (['FILE', 'DIR', 'CMD'].includes(placeholder)) return 'file'
  return words.map((word): Word => [word, meaning])
}

function namesOf({ short, long }: { short?: string; long?: string }): string[] {
  return [short, long].filter((name) => name !== undefined)
}

function wordsOf(choices: Word[]): string {
  return choices.map(([word]) => word).join(' ')
}

/** A pattern of shells for an option after its command. */
function alternatives(command: string, names: string[]): string {
  return names.map((name) => `'${command} ${name}'`).join('|')
}

/** A pattern of bash and zsh for every option with a value, and for the signs at which bash splits a word. */
function withValue(known: Completion[]): string {
  return known
    .flatMap(({ command, values }) => values.map(({ names }) => alternatives(command, names)))
    .concat("*' ='", "*' :'")
    .join('|')
}

/** The cases of bash and zsh for each option with a value; `act` writes what offers choices. */
function valueCases(known: Completion[], act: (choices: Choices) => string): string {
  const actOf = ({ choices, after }: Value) => {
    if (after.length === 0) return act(choices)
    const cases = after.map(([first, some]) => `${first}) ${act(some)} ;;`)
    return `case "$first" in ${cases.join(' ')} *) ${act(choices)} ;; esac`
  }
  return known
    .flatMap(({ command, values }) =>
      values.map((value) => `  ${alternatives(command, value.names)}) ${actOf(value)} ;;`),
    )
    .join('\n')
}

/** A pattern of bash and zsh for a position after a command; the last argument may take all that follow. */
function patternOf(command: string, position: number, isVariadic: boolean): string {
  return isVariadic ? `'${command} '*` : `'${command} ${position}'`
}

// Without `mapfile`, which bash 3 of macOS lacks. It also lacks `compopt`, so there names of files are offered everywhere.
function bashScript(known: Completion[]): string {
  const act = (choices: Choices) => (choices === 'file' ? 'files=yes' : `words="${wordsOf(choices)}"`)
  const options = known.map(({ command, options: words }) => `    '${command}') words="${wordsOf(words)}" ;;`)
  const positions = known.flatMap(({ command, positions: all }) =>
    all.map(({ choices, isVariadic }, at) => `    ${patternOf(command, at, isVariadic)}) ${act(choices)} ;;`),
  )
  return `# Completions of sync-bridge for bash
_sync_bridge() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD - 1]}" command= first= words= files= at=0 index
  # The shell splits --name=value at the equals sign.
  [ "$before" != = ] || before="\${COMP_WORDS[COMP_CWORD - 2]}"
  [ "$current" != = ] || current=
  [ "$COMP_CWORD" = 1 ] || command="\${COMP_WORDS[1]}"
  # Counts the arguments before this one, without options and their values.
  for ((index = 2; index < COMP_CWORD; index++)); do
    case "$command \${COMP_WORDS[index - 1]}" in
    ${withValue(known)}) continue ;;
    esac
    case "\${COMP_WORDS[index]}" in -* | = | :) ;; *) at=$((at + 1)) first="\${first:-\${COMP_WORDS[index]}}" ;; esac
  done
  case "$command $before" in
${valueCases(known, act)}
  *)
    case "$current" in
    -*) case "$command" in
${options.join('\n')}
    esac ;;
    *) case "$command $at" in
${positions.join('\n')}
    esac ;;
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ -n "$files" ] || compopt +o default 2> /dev/null
}
complete -o default -F _sync_bridge sync-bridge
`
}

// The shell splits a word from its meaning at the first colon.
function zshScript(known: Completion[]): string {
  const quoted = (words: Word[]) =>
    words.map(([word, meaning]) => `'${word}:${meaning.replaceAll("'", "'\\''")}'`).join(' ')
  const act = (choices: Choices) => (choices === 'file' ? '_files' : `known=(${quoted(choices)})`)
  const options = known.map(({ command, options: words }) => `    '${command}') known=(${quoted(words)}) ;;`)
  const positions = known.flatMap(({ command, positions: all }) =>
    all.map(({ choices, isVariadic }, at) => `    ${patternOf(command, at, isVariadic)}) ${act(choices)} ;;`),
  )
  return `#compdef sync-bridge
# Completions of sync-bridge for zsh; as a file in $fpath its name is _sync-bridge
_sync-bridge() {
  local command= first=
  local -a known
  local -i at=0 index
  (( CURRENT == 2 )) || command=$words[2]
  # Counts the arguments before this one, without options and their values.
  for (( index = 3; index < CURRENT; index++ )); do
    case "$command $words[index-1]" in
    ${withValue(known)}) continue ;;
    esac
    [[ $words[index] == -* ]] || at+=1 first=\${first:-$words[index]}
  done
  case "$command $words[CURRENT-1]" in
${valueCases(known, act)}
  *)
    case $words[CURRENT] in
    -*) case $command in
${options.join('\n')}
    esac ;;
    *) case "$command $at" in
${positions.join('\n')}
    esac ;;
    esac ;;
  esac
  (( ! $#known )) || _describe sync-bridge known
}
if [ "$funcstack[1]" = _sync-bridge ]; then _sync-bridge "$@"; else compdef _sync-bridge sync-bridge; fi
`
}

function fishScript(known: Completion[]): string {
  const valued = known.flatMap(({ command, values }) =>
    values.flatMap(({ names }) => names.map((name) => `'${command} ${name}'`)),
  )
  const lines = known.flatMap(({ command, positions, options, values }) => {
    const add = (where: string, what: string, meaning: string) =>
      `complete -c sync-bridge -n ${where} ${what} -d '${meaning.replaceAll("'", "\\'")}'`
    const after = `'__fish_seen_subcommand_from ${command}'`
    return [
      ...positions.flatMap(({ choices, isVariadic }, at) => {
        const place = `'__sync_bridge_at ${isVariadic ? '-ge' : '-eq'} ${at} ${command}'`
        const where = command === '' ? '__fish_use_subcommand' : place
        if (choices === 'file') return [`complete -c sync-bridge -n ${where} -F`]
        return choices.map(([word, meaning]) => add(where, `-a ${word}`, meaning))
      }),
      ...options.flatMap(([name, meaning]) => {
        const value = values.find(({ names }) => names.includes(name))
        if (!value) return [add(after, `-l ${name.slice(2)}`, meaning)]
        const addValue = (where: string, choices: Choices) => {
          const kind = choices === 'file' ? '-r -F' : `-x -a '${wordsOf(choices)}'`
          return add(where, `-l ${name.slice(2)} ${kind}`, meaning)
        }
        if (value.after.length === 0) return [addValue(after, value.choices)]
        const seen = (not: string, firsts: string[]) =>
          `'__fish_seen_subcommand_from ${command}; and ${not}__fish_seen_subcommand_from ${firsts.join(' ')}'`
        return [
          ...value.after.map(([first, choices]) => addValue(seen('', [first]), choices)),
          addValue(
            seen(
              'not ',
              value.after.map(([first]) => first),
            ),
            value.choices,
          ),
        ]
      }),
    ]
  })
  return `# Completions of sync-bridge for fish
# Compares a number with that of the arguments after a command, without options and their values.
function __sync_bridge_at -a compare number command
  set -l words (commandline -opc)
  test "$words[2]" = "$command"; or return 1
  set -l at 0
  set -l before $words[2]
  for word in $words[3..-1]
    contains -- "$command $before" ${valued.join(' ')}; or string match -q -- '-*' $word; or set at (math $at + 1)
    set before $word
  end
  test $at $compare $number
end
complete -c sync-bridge -f
${lines.join('\n')}
`
}

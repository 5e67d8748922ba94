import { descriptions } from './command-line.ts'

/** The shells that `completion` knows. */
export type Shell = 'bash' | 'zsh' | 'fish'

/** Something to type with its meaning, and what has to follow it, if anything has. */
type Word = [word: string, meaning: string, value?: string]

const names = descriptions.map(([name, { summary }]): Word => [name, summary])

/** The words that may follow each command, and those that may follow the program's name, where there is no command yet. */
const words: [command: string, words: Word[]][] = [
  ['', [...names, ['help', 'show the options of a command'], ['version', 'show the version']]],
  ['help', names],
  ...descriptions.map(([name, { options, words: described = [] }]): [string, Word[]] => {
    const choices = described.flatMap(
      (word) => word.choices?.map((choice): Word => [choice, word.name]) ?? [],
    )
    const own = Object.entries(options).map(([option, it]): Word => [`--${option}`, it.meaning, it.value])
    return [name, [...choices, ...own, ['--help', 'show the options']]]
  }),
]

/** The options that a file follows. */
const fileOptions = new Set(
  descriptions.flatMap(([, { options }]) =>
    Object.entries(options).flatMap(([option, { value }]) => (value === 'FILE' ? [`--${option}`] : [])),
  ),
)

/** A script that makes a shell complete commands, their options, files and what else can be known. */
export function completionScript(shell: Shell): string {
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell]()
}

function bashScript(): string {
  const cases = words.map(
    ([command, known]) => `  '${command}') words="${known.map(([word]) => word).join(' ')}" ;;`,
  )
  return `# Completions of sync-bridge for bash
_sync_bridge() {
  local current="\${COMP_WORDS[COMP_CWORD]}" command= words=
  COMPREPLY=()
  case "\${COMP_WORDS[COMP_CWORD - 1]}" in ${[...fileOptions].join('|')}) return ;; esac
  [ "$COMP_CWORD" = 1 ] || command="\${COMP_WORDS[1]}"
  case "$command" in
${cases.join('\n')}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _sync_bridge sync-bridge
`
}

// The meanings have no quotes of their own.
function zshScript(): string {
  const cases = words.map(([command, known]) => {
    return `  '${command}') known=(${known.map(([word, meaning]) => `'${word}:${meaning}'`).join(' ')}) ;;`
  })
  return `#compdef sync-bridge
# Completions of sync-bridge for zsh; as a file in $fpath its name is _sync-bridge
_sync-bridge() {
  local command=
  local -a known
  case $words[CURRENT-1] in ${[...fileOptions].join('|')}) _files; return ;; esac
  (( CURRENT == 2 )) || command=$words[2]
  case $command in
${cases.join('\n')}
  esac
  _describe sync-bridge known
}
if [ "$funcstack[1]" = _sync-bridge ]; then _sync-bridge "$@"; else compdef _sync-bridge sync-bridge; fi
`
}

function fishScript(): string {
  const lines = words.flatMap(([command, known]) => {
    const where = command === '' ? '__fish_use_subcommand' : `'__fish_seen_subcommand_from ${command}'`
    return known.map(([word, meaning, value]) => {
      const follows = value === undefined ? '' : value === 'FILE' ? ' -r -F' : ' -x'
      const what = word.startsWith('--') ? `-l ${word.slice(2)}${follows}` : `-a ${word}`
      return `complete -c sync-bridge -n ${where} ${what} -d '${meaning}'`
    })
  })
  return `# Completions of sync-bridge for fish\ncomplete -c sync-bridge -f\n${lines.join('\n')}\n`
}

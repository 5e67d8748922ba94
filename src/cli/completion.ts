import { descriptions } from './command-line.ts'

/** The supported shells. */
export type Shell = 'bash' | 'zsh' | 'fish'

/** A word to complete, its meaning, and its value if it needs one. */
type Word = [word: string, meaning: string, value?: string]

const names = descriptions.map(([name, { summary }]): Word => [name, summary])

/** The words that may follow each command; '' is the program itself. */
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

/** Options with a file as their value. */
const fileOptions = new Set(
  descriptions.flatMap(([, { options }]) =>
    Object.entries(options).flatMap(([option, { value }]) => (value === 'FILE' ? [`--${option}`] : [])),
  ),
)

/** A script that completes commands, options, files and choices. */
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

// The meanings contain no quotes.
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
      let what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`
      if (value !== undefined) what += value === 'FILE' ? ' -r -F' : ' -x'
      return `complete -c sync-bridge -n ${where} ${what} -d '${meaning}'`
    })
  })
  return `# Completions of sync-bridge for fish\ncomplete -c sync-bridge -f\n${lines.join('\n')}\n`
}

import { commands } from './command-line.ts'

import type { CommandDescription } from './command-line.ts'

/** The shells that `completion` knows. */
export type Shell = 'bash' | 'zsh' | 'fish'

const descriptions: [string, CommandDescription][] = Object.entries(commands)

/** All that may follow the program's name, with its meaning. */
const words: [word: string, meaning: string][] = [
  ...descriptions.map(([name, { summary }]): [string, string] => [name, summary]),
  ['help', 'show the options of a command'],
  ['version', 'show the version'],
]
const names = descriptions.map(([name]) => name).join(' ')

/** A script that makes a shell complete commands, their options, files and what else can be known. */
export function completionScript(shell: Shell): string {
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell]()
}

function bashScript(): string {
  const cases = descriptions.map(([name, { options, argument }]) => {
    const flags = Object.keys(options).map((option) => `--${option}`)
    return `    ${name}) words="${[...(argument?.choices ?? []), ...flags, '--help'].join(' ')}" ;;`
  })
  return `# Completions of sync-bridge for bash
_sync_bridge() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=
  COMPREPLY=()
  [ "\${COMP_WORDS[COMP_CWORD - 1]}" = --config ] && return
  if [ "$COMP_CWORD" = 1 ]; then
    words="${words.map(([word]) => word).join(' ')}"
  else
    case "\${COMP_WORDS[1]}" in
    help) words="${names}" ;;
${cases.join('\n')}
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _sync_bridge sync-bridge
`
}

function zshScript(): string {
  const cases = descriptions.map(([name, { options, argument }]) => {
    const rules = Object.entries(options).map(([option, { value, isList, meaning }]) => {
      const action = value && `:${value}:${value === 'FILE' ? '_files' : ''}`
      return quoted(`${isList ? '*' : ''}--${option}[${meaning}]${action ?? ''}`)
    })
    if (argument) rules.push(quoted(`1:${argument.name}:(${argument.choices.join(' ')})`))
    return `    ${name}) _arguments ${[...rules, quoted('--help[show the options]')].join(' ')} ;;`
  })
  return `#compdef sync-bridge
# Completions of sync-bridge for zsh; as a file in $fpath its name is _sync-bridge
_sync-bridge() {
  local -a words_known=(${words.map(([word, meaning]) => `\n    ${quoted(`${word}:${meaning}`)}`).join('')}
  )
  if (( CURRENT == 2 )); then
    _describe command words_known
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
    help) _arguments '1:COMMAND:(${names})' ;;
${cases.join('\n')}
  esac
}
if [ "$funcstack[1]" = _sync-bridge ]; then _sync-bridge "$@"; else compdef _sync-bridge sync-bridge; fi
`
}

function fishScript(): string {
  const lines = descriptions.flatMap(([name, { options, argument }]) => {
    const start = `complete -c sync-bridge -n '__fish_seen_subcommand_from ${name}'`
    const flags = Object.entries(options).map(([option, { value, meaning }]) => {
      const kind = value === undefined ? '' : value === 'FILE' ? ' -r -F' : ' -x'
      return `${start} -l ${option}${kind} -d ${quoted(meaning)}`
    })
    return argument ? [...flags, `${start} -a '${argument.choices.join(' ')}'`] : flags
  })
  const first = words.map(
    ([word, meaning]) => `complete -c sync-bridge -n __fish_use_subcommand -a ${word} -d ${quoted(meaning)}`,
  )
  return `# Completions of sync-bridge for fish
complete -c sync-bridge -f
${first.join('\n')}
complete -c sync-bridge -n '__fish_seen_subcommand_from help' -a '${names}'
complete -c sync-bridge -n 'not __fish_use_subcommand' -l help -d 'show the options'
${lines.join('\n')}
`
}

/** For zsh and fish alike; the texts have no quotes of their own. */
function quoted(text: string): string {
  return `'${text}'`
}

// `make commands-page` writes docs/commands.md.
import { writeFileSync } from 'node:fs'

import {
  commands,
  dataCommandNames,
  type CommandDescription,
  type CommandName,
} from '../src/cli/command-line.ts'

const introduction = `# Commands

Every command of the executable, with its options. \`sync-bridge help COMMAND\` prints the same. Generated from \`src/cli/command-line.ts\` by
\`make commands-page\`.

| Exit code | Meaning |
| --- | --- |
| 0 | Success |
| 1 | Failure; the last line says why |
| 2 | Usage error, or a problem in the settings |
| 3 | Partial success; the command lists what is missing |

Data goes to standard output, everything else to standard error.
`

const owners: readonly string[] = dataCommandNames

/** Every command with its options, in two groups. */
export function commandsPage(): string {
  const all = Object.keys(commands) as CommandName[]
  const others = all.filter((name) => !owners.includes(name))
  return [
    introduction,
    '\n## Your own data\n',
    'These read the account from `--account FILE`, else from `$SYNC_BRIDGE_ACCOUNT`, else from `~/.config/sync-bridge/account.env`\n' +
      '(or `$XDG_CONFIG_HOME` instead of `~/.config`, if set). [Your data](your-data.md) shows how to use them.\n',
    ...dataCommandNames.map(section),
    '\n## A service for others\n',
    '[Run a bridge](run.md) shows how to use them.\n',
    ...others.map(section),
  ].join('\n')
}

function section(name: CommandName): string {
  const { usage, summary, options, details }: CommandDescription = commands[name]
  const rows = Object.entries(options).map(([option, { value, meaning, isList }]) => {
    return `| \`--${option}${value ? ` ${value}` : ''}\` | ${meaning}${isList && !meaning.includes('several') ? '; may be given several times' : ''} |\n`
  })
  const table = rows.length > 0 ? `\n| Option | Meaning |\n| --- | --- |\n${rows.join('')}` : ''
  const more = details ? `\n${details}\n` : ''
  return `### ${name}\n\n\`\`\`text\nsync-bridge ${`${name} ${usage}`.trimEnd()}\n\`\`\`\n\n${sentence(summary)}\n${table}${more}`
}

function sentence(summary: string): string {
  return `${summary[0]!.toUpperCase()}${summary.slice(1)}.`
}

if (import.meta.main) writeFileSync('docs/commands.md', commandsPage())

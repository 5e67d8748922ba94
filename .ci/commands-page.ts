// `make pages` writes docs/commands.md.
import { writeFileSync } from 'node:fs'

import { createProgram, describeArgument, describeOption } from '../src/cli/run.ts'
import { exitCodes, type AnyCommand } from '../src/cli/command.ts'

const introduction = `# Commands

Every command of the executable, with its options. \`sync-bridge help COMMAND\` prints the same.

Exit codes: ${Object.entries(exitCodes)
  .map(([code, meaning]) => `${code} ${meaning}`)
  .join(', ')}. The last line of a failure says why.
Data goes to standard output, everything else to standard error.
`

const startsBridge =
  'Starts a bridge inside its own process, unless the account or --bridge names a running one.'

/** Options that many commands have, with the same meaning; the page describes them once. */
export function commonOptions(): AnyCommand['options'][number][] {
  const all = createProgram().commands.flatMap(({ options }) => options)
  const groups = Map.groupBy(all, ({ flags, description }) => `${flags} ${description}`)
  return [...groups.values()].filter((same) => same.length >= 5).map(([option]) => option!)
}

const common = commonOptions()
/** Whether it is one of these. */
export const isCommon = (option: AnyCommand['options'][number]) =>
  common.some(({ flags, description }) => option.flags === flags && option.description === description)

/** What stands above each group. */
const beginnings: Record<string, string> = {
  'Your own data:':
    `Each of these commands ${startsBridge.replace('Starts', 'starts')}\n\n` +
    '[Your data](your-data.md) shows how to use them. Several commands take these options:\n' +
    list(common.map((option) => [option.flags, describeOption(option)])),
  'A service for others:': '[Run a bridge](run.md) shows how to use them.\n',
}

/** Every command with its arguments and options, by group. */
export function commandsPage(): string {
  const groups = Map.groupBy(createProgram().commands, (command) => command.helpGroup())
  const sections = [...groups].flatMap(([group, commands]) => {
    const beginning = beginnings[group] ? `\n${beginnings[group]}` : ''
    return [`\n## ${group.slice(0, -1)}\n${beginning}`, ...commands.map(section)]
  })
  return [introduction, ...sections].join('\n')
}

function section(command: AnyCommand): string {
  const words = command.registeredArguments.map((argument) => [argument.name(), describeArgument(argument)])
  const options = command.options
    .filter((option) => !isCommon(option))
    .map((option) => [option.flags, describeOption(option)])
  const others = command.options.filter(isCommon).map(({ long }) => `\`${long}\``)
  const missing = common.map(({ long }) => `\`${long}\``).filter((long) => !others.includes(long))
  const also = missing.length <= 1 ? ['the options above', ...missing].join(', without ') : others.join(', ')
  return `### ${command.name()}

\`\`\`text
sync-bridge ${command.name()} ${command.usage()}
\`\`\`

${command.description().replace(startsBridge, '').trimEnd()}
${list([...words, ...options])}${others.length > 0 ? `\nAlso: ${also}.\n` : ''}`
}

function list(rows: string[][]): string {
  if (rows.length === 0) return ''
  return `\n${rows.map(([name, meaning]) => `- \`${name}\`: ${meaning}\n`).join('')}`
}

if (import.meta.main) writeFileSync('docs/commands.md', commandsPage())

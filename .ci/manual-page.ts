import { createProgram, describeArgument, describeOption } from '../src/cli/run.ts'
import { exitCodes, type AnyCommand } from '../src/cli/command.ts'

const summary = 'record-storage REST access to Firefox Sync'

/** A manual page for the program and one for each command, by file name. `date` is the day of the release. */
export function manualPages(version: string, date: string): Record<string, string> {
  const head = (name: string) =>
    `.TH ${name.toUpperCase()} 1 "${date}" "sync-bridge ${version}" "User Commands"`
  const pages = createProgram().commands.map((command) => {
    const name = `sync-bridge-${command.name()}`
    return [`${name}.1`, `${head(name)}\n${commandPage(name, command)}`]
  })
  return { 'sync-bridge.1': `${head('sync-bridge')}\n${mainPage()}`, ...Object.fromEntries(pages) }
}

function mainPage(): string {
  const codes = Object.entries(exitCodes).map((entry) => `.TP\n${entry.join('\n')}`)
  const list = createProgram().commands.map(
    (command) => `.TP\n.BR sync\\-bridge\\-${escape(command.name())} (1)\n${escape(command.summary())}`,
  )
  return `.SH NAME
sync\\-bridge \\- ${summary}
.SH SYNOPSIS
.B sync\\-bridge
.I COMMAND
.RI [ OPTIONS ]
.SH DESCRIPTION
Serves the encrypted collections of a Firefox Sync 1.5 storage through the Kinto record\\-storage REST protocol.
The service never holds the encryption key.
.SH COMMANDS
${list.join('\n')}
.SH EXIT STATUS
${codes.join('\n')}
.SH FILES
.TP
.I /etc/sync\\-bridge/sync\\-bridge.ini
Settings of the service.
.TP
.I /etc/sync\\-bridge/cache_hmac_secret
The secret that seals what is in the cache.
.TP
.I /usr/share/doc/sync\\-bridge
Guides, of which run.md and troubleshooting.md are for operators, and examples.
.SH SEE ALSO
.BR systemctl (1),
.BR journalctl (1)
`
}

function commandPage(name: string, command: AnyCommand): string {
  const options = command.options.map((option) => {
    const [, names, value = ''] = /^([^<]+?)(?: <(.+)>)?$/.exec(option.flags)!
    const placeholder = value === '' ? '' : ` \\fI${escape(value)}\\fR`
    return `.TP\n\\fB${escape(names!)}\\fR${placeholder}\n${escape(describeOption(option))}`
  })
  const words = command.registeredArguments.map(
    (argument) => `.TP\n\\fI${escape(argument.name())}\\fR\n${escape(describeArgument(argument))}`,
  )
  return `.SH NAME
${escape(name)} \\- ${escape(command.summary())}
.SH SYNOPSIS
.B sync\\-bridge ${escape(command.name())}
${escape(command.usage())}
.SH DESCRIPTION
${escape(command.description())}
${section('ARGUMENTS', words)}${section('OPTIONS', options)}.SH SEE ALSO
.BR sync\\-bridge (1)
`
}

function section(title: string, entries: string[]): string {
  return entries.length === 0 ? '' : `.SH ${title}\n${entries.join('\n')}\n`
}

/** Escapes text for the formatter. */
function escape(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('…', '...')
    .replaceAll('-', '\\-')
    .replaceAll(/^([.'])/gm, '\\&$1')
}

import { descriptions, generalHelp, type CommandDescription } from '../src/cli/command-line.ts'

const summary = 'record-storage REST access to Firefox Sync'

/** A manual page for the program and one for each command, by file name. `date` is the day of the release. */
export function manualPages(version: string, date: string): Record<string, string> {
  const head = (name: string) =>
    `.TH ${name.toUpperCase()} 1 "${date}" "sync-bridge ${version}" "User Commands"`
  const pages = descriptions.map(([command, description]) => {
    const name = `sync-bridge-${command}`
    return [`${name}.1`, `${head(name)}\n${commandPage(name, command, description)}`]
  })
  return { 'sync-bridge.1': `${head('sync-bridge')}\n${mainPage()}`, ...Object.fromEntries(pages) }
}

function mainPage(): string {
  const [, codes] = /^Exit codes: (.*)$/m.exec(generalHelp)!
  const list = descriptions.map(
    ([command, { summary: short }]) => `.TP\n.BR sync\\-bridge\\-${escape(command)} (1)\n${escape(short)}`,
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
${escape(codes!)}
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

function commandPage(name: string, command: string, description: CommandDescription): string {
  const { usage, summary: short, options, details } = description
  const list = Object.entries(options).map(([option, { value, meaning }]) => {
    const argument = value === undefined ? '' : ` \\fI${escape(value)}\\fR`
    return `.TP\n\\fB\\-\\-${escape(option)}\\fR${argument}\n${escape(meaning)}`
  })
  return `.SH NAME
${escape(name)} \\- ${escape(short)}
.SH SYNOPSIS
.B sync\\-bridge ${escape(command)}
${escape(usage)}
${list.length === 0 ? '' : `.SH OPTIONS\n${list.join('\n')}\n`}${details ? `.SH DESCRIPTION\n${escape(details)}\n` : ''}.SH SEE ALSO
.BR sync\\-bridge (1)
`
}

/** Escapes text for the formatter. */
function escape(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(/^([.'])/gm, '\\&$1')
}

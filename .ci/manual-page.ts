import { commandHelp, commands, type CommandName } from '../src/cli/command-line.ts'

/** sync-bridge(1), out of the same text as its help. `date` is the day of the release. */
export function manualPage(version: string, date: string): string {
  const chapters = (Object.keys(commands) as CommandName[]).map(
    (name) => `.SS ${escape(name)}\n.nf\n${escape(commandHelp(name).trimEnd())}\n.fi`,
  )
  return `.TH SYNC-BRIDGE 1 "${date}" "sync-bridge ${version}" "User Commands"
.SH NAME
sync-bridge \\- record-storage REST access to Firefox Sync
.SH SYNOPSIS
.B sync-bridge
.I COMMAND
.RI [ OPTIONS ]
.SH DESCRIPTION
Serves the encrypted collections of a Firefox Sync 1.5 storage through the Kinto record-storage REST protocol.
It never holds the encryption key.
.SH COMMANDS
${chapters.join('\n')}
.SH EXIT STATUS
0 success, 1 failure, 2 called wrongly or with bad settings.
.SH FILES
.TP
.I /etc/sync-bridge/sync-bridge.ini
Settings of the service.
.TP
.I /etc/sync-bridge/cache_hmac_secret
The secret that seals what is in the cache.
.TP
.I /usr/share/doc/sync-bridge
Guides, of which run.md and troubleshooting.md are for operators, and examples.
.SH SEE ALSO
.BR systemctl (1),
.BR journalctl (1)
`
}

/** Text that means nothing to the formatter. */
function escape(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(/^([.'])/gm, '\\&$1')
}

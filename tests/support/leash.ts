const setpriv = Bun.which('setpriv')

/** What goes before a command that shall end with this process, also when this one is killed; Linux only. */
export function leash(signal: 'TERM' | 'KILL'): string[] {
  return setpriv ? [setpriv, '--pdeathsig', signal] : []
}

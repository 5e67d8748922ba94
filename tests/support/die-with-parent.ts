const setpriv = Bun.which('setpriv')

/** A prefix for a command that must end with this process, even if this one is killed; Linux only. */
export function dieWithParent(signal: 'TERM' | 'KILL'): string[] {
  return setpriv ? [setpriv, '--pdeathsig', signal] : []
}

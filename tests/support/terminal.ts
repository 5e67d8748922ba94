/** Runs a command on a terminal of its own: only there does it ask, hide what is typed, and get Ctrl+C. */
export function startOnTerminal(command: string[], options: { cwd?: string; env: Record<string, string> }) {
  let shown = ''
  const closed = Promise.withResolvers<void>()
  const child = Bun.spawn(command, {
    ...options,
    terminal: {
      cols: 200,
      rows: 50,
      data: (_, bytes) => void (shown += Buffer.from(bytes).toString()),
      exit: () => closed.resolve(),
    },
  })
  return {
    child,
    /** Sends keys, as if typed. */
    type: (keys: string) => void child.terminal!.write(keys),
    /** The output so far. */
    shown: () => shown,
    /** Resolves after the last output, which may arrive after the process has exited. */
    closed: closed.promise,
  }
}

/** How many requests `fetch` has under way at a time; the others wait. The runtime reads it when a process begins. */
const variable = 'BUN_CONFIG_MAX_HTTP_REQUESTS'
const slotsByDefault = 256
const slotsWanted = 1024

type Environment = Record<string, string | undefined>

/** How many requests this process can have under way to upstream, all hosts together. */
export function fetchSlotsOf({ [variable]: given }: Environment): number {
  const slots = Number(given)
  // The runtime ignores other numbers too.
  return /^\d{1,5}$/.test(given ?? '') && slots > 0 && slots <= 65_535 ? slots : slotsByDefault
}

/** The environment for a process that is started, with enough slots unless it names a number itself. */
export function withFetchSlots(environment: Environment): Environment {
  return { ...environment, [variable]: environment[variable] ?? String(slotsWanted) }
}

/**
 * Replaces this program by itself, with enough slots in its environment: the same process with the same arguments. Returns
 * where there are enough, or where that is impossible: then the slots are those that there are.
 */
export function restartForFetchSlots(): void {
  // A process that was started to be a worker or a successor would lose its connection to the one that started it.
  if (process.env[variable] !== undefined || process.send) return
  const environment = withFetchSlots(process.env) as Record<string, string>
  try {
    process.execve!(process.execPath, [process.argv0, ...ownArguments()], environment)
  } catch {
    // The runtime would warn that execve is experimental; that concerns us only when its version changes.
    process.removeAllListeners('warning')
  }
}

/** What this program was started with: from source the runtime is the executable, and the program its first argument. */
export function ownArguments(): string[] {
  return process.argv.slice(Bun.isStandaloneExecutable ? 2 : 1)
}

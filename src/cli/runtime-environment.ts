const slotsVariable = 'BUN_CONFIG_MAX_HTTP_REQUESTS'

/** What the runtime and its allocator read from the environment when a process begins, and what a service needs there. */
const runtimeEnvironment = {
  /** How many requests `fetch` has under way at a time; the others wait. */
  [slotsVariable]: '1024',
  /**
   * How long freed memory is kept before it is given back, and how often unused parts of what is in use are, in ms. By itself the
   * allocator does both ten times a second, and memory that the next requests need is given back and taken again.
   */
  MIMALLOC_PURGE_DELAY: '1000',
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '1000',
  /** How often garbage is looked for beside the collections that its amount causes, in ms; every second by itself. */
  BUN_GC_TIMER_INTERVAL: '10000',
} as const

/** The same as lines of an environment, for those who start the service. */
export const environmentLines = Object.entries(runtimeEnvironment).map(([name, value]) => `${name}=${value}`)

/** What the runtime has where the variable names no number. */
const slotsByDefault = 256

type Environment = Record<string, string | undefined>

/** How many requests this process can have under way to upstream, all hosts together. */
export function fetchSlotsOf({ [slotsVariable]: given }: Environment): number {
  const slots = Number(given)
  // The runtime ignores other numbers too.
  return /^\d{1,5}$/.test(given ?? '') && slots > 0 && slots <= 65_535 ? slots : slotsByDefault
}

/** The environment for a process that is started. What it names itself stays as it is. */
export function withRuntimeEnvironment(environment: Environment): Environment {
  return { ...runtimeEnvironment, ...environment }
}

/**
 * Replaces this program by itself, with `runtimeEnvironment`: the same process with the same arguments. Returns where nothing is
 * missing, or where that is impossible: then the service runs with what there is.
 */
export function restartInRuntimeEnvironment(): void {
  const isComplete = Object.keys(runtimeEnvironment).every((name) => process.env[name] !== undefined)
  // A process that was started to be a worker or a successor would lose its connection to the one that started it.
  if (isComplete || process.send) return
  const environment = withRuntimeEnvironment(process.env) as Record<string, string>
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

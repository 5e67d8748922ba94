const slotsVariable = 'BUN_CONFIG_MAX_HTTP_REQUESTS'

/** What the runtime and its allocator read from the environment when a process begins; the unit, the image and the Compose file set it. */
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

/** The same as lines of an environment. */
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

const slotsVariable = 'BUN_CONFIG_MAX_HTTP_REQUESTS'

/** Environment variables of the runtime and its allocator, read when a process starts; set by the unit, the image and the Compose file. */
const runtimeEnvironment = {
  /** Maximum concurrent `fetch` requests; others wait. */
  [slotsVariable]: '1024',
  /**
   * How long freed memory is kept, and how often unused parts of used memory are returned, in ms. The default, ten times a second, returns
   * memory that the next requests need again.
   */
  MIMALLOC_PURGE_DELAY: '1000',
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '1000',
  /** Interval of additional garbage collections in ms; default: 1000. */
  BUN_GC_TIMER_INTERVAL: '10000',
} as const

/** The variables as lines of an environment file. */
export const environmentLines = Object.entries(runtimeEnvironment).map(([name, value]) => `${name}=${value}`)

/** The runtime's default without the variable. */
const slotsByDefault = 256

type Environment = Record<string, string | undefined>

/** Maximum concurrent `fetch` requests of this process, for all hosts. */
export function fetchSlotsOf({ [slotsVariable]: given }: Environment): number {
  const slots = Number(given)
  // The runtime also ignores other numbers.
  return /^\d{1,5}$/.test(given ?? '') && slots > 0 && slots <= 65_535 ? slots : slotsByDefault
}

const firstDelayMs = 50
const maxDelayMs = 2000

/**
 * How long to wait before the next attempt to connect, in ms, after so many that failed: 50 doubling to 2000, less up
 * to a quarter by chance (`random` is from 0 up to 1), so that many processes don't come back at the same moment.
 */
export function reconnectDelayMs(failures: number, random: number): number {
  return Math.min(maxDelayMs, firstDelayMs * 2 ** failures) * (1 - 0.25 * random)
}

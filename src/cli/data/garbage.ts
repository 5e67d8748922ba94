import { edenGC } from 'bun:jsc'

/**
 * Collects recent garbage, in a few milliseconds. The runtime would wait until there is as much garbage as data, which doubles the memory
 * of a large export.
 */
export function collectYoungGarbage(): void {
  edenGC()
}

import { edenGC } from 'bun:jsc'

/**
 * Collects what was made lately and is not used any more: some milliseconds. The runtime by itself waits until there is as much garbage
 * as there is data, which doubles the memory of a large export.
 */
export function collectYoungGarbage(): void {
  edenGC()
}

import { annotatedIni } from '../settings/settings-text.ts'

import type { Host } from './host.ts'

/** Prints a settings file to begin with, with a secret of its own. */
export function init(host: Host): number {
  host.stdout.write(annotatedIni(host.randomBytes(32).toHex()))
  return 0
}

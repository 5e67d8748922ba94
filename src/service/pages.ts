import { versionPrefix } from '../protocol/find.ts'

import type { Settings } from '../settings/settings.ts'

/** Paths of resources that are not users' data. They are there whether these settings switch them on or off. */
export function servicePaths(settings: Pick<Settings, 'httpApiVersion'>) {
  const prefix = versionPrefix(settings)
  return {
    version: `${prefix}/__version__`,
    metrics: `${prefix}/__metrics__`,
    docs: `${prefix}/docs`,
    explorer: `${prefix}/explore`,
  }
}

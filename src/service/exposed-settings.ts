import { version } from '../version.ts'

import type { Settings } from '../settings/settings.ts'
import type { ExposedSettings } from '../protocol/exposed.ts'

/** The settings that shape what the exposed protocol says. */
export function exposedSettings(settings: Settings): ExposedSettings {
  return {
    projectName: settings.projectName,
    projectDocs: settings.projectDocs,
    projectVersion: version,
    errorInfoLink: settings.errorInfoLink,
    httpApiVersion: settings.httpApiVersion,
    httpScheme: settings.httpScheme,
    httpHost: settings.httpHost,
    batchMaxRequests: settings.batchMaxRequests,
    maxRequestBytes: settings.maxRequestBytes,
    docsEnabled: settings.docsEnabled,
    explorerEnabled: settings.explorerEnabled,
    flushSafeEtag: settings.flushSafeEtag,
    ...changeableSettings(settings),
  }
}

/** Follows settings that were read again. Whoever holds `exposed` sees it from the next request on. */
export function takeOver(exposed: ExposedSettings, settings: Settings): void {
  Object.assign(exposed, changeableSettings(settings))
}

/** What may change while requests are under way. */
function changeableSettings(settings: Settings) {
  return {
    readonly: settings.readonly,
    writable: settings.writable,
    retryAfterSeconds: settings.retryAfterSeconds,
    backoffSeconds: settings.backoff,
    eos: settings.eos,
    eosMessage: settings.eosMessage,
    eosUrl: settings.eosUrl,
    corsOrigins: settings.corsOrigins === '*' ? null : settings.corsOrigins,
    corsMaxAgeSeconds: settings.corsMaxAgeSeconds,
  } satisfies Partial<ExposedSettings>
}

import { invalidRequest } from '../domain/errors.ts'
import type { ExposedSettings } from './exposed.ts'

const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?$/

/**
 * The origin under which clients know this service, "https://sync.example.org": as configured, or else from the request's
 * own Host. Headers such as X-Forwarded-Host are not believed: clients send their credentials wherever we point them.
 *
 * Throws `ServiceError` 400 when the request has no usable Host.
 */
export function publicOrigin(
  host: string | null,
  settings: Pick<ExposedSettings, 'httpHost' | 'httpScheme'>,
): string {
  return `${settings.httpScheme ?? 'http'}://${settings.httpHost ?? requireHost(host)}`
}

/** Refuses a Host that is missing, doubled or malformed. HTTP/1.0 may omit it where the settings name our host. */
export function checkHost(host: string | null, settings: Pick<ExposedSettings, 'httpHost'>): void {
  if ((host === null || host === '') && settings.httpHost !== null) return
  requireHost(host)
}

// Nearly all requests name the same host.
let acceptedHost: string | null = null

function requireHost(host: string | null): string {
  if (host !== null && host === acceptedHost) return host
  const match = hostForm.exec(host ?? '')
  if (match && Number(match[1] ?? 0) <= 65_535) return (acceptedHost = host!)
  throw invalidRequest(
    [{ location: 'header', name: 'Host', description: 'must be one host name with an optional port' }],
    {
      headers: { Connection: 'close' },
    },
  )
}

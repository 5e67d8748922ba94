import { readSeconds } from './retry-after.ts'
import type { Notices } from '../domain/record-storage.ts'

const longestAlert = 4096

/** Adds what the headers of an answer tell besides it; whatever is no number, or too long, is dropped. */
export function collectNotices(notices: Notices, headers: Headers): void {
  const backoffSeconds = readBackoff(headers)
  if (backoffSeconds !== null) notices.backoffSeconds = Math.max(notices.backoffSeconds ?? 0, backoffSeconds)
  const alert = headers.get('x-weave-alert')
  if (alert !== null && alert.length > 0 && alert.length <= longestAlert) notices.alert = alert
  const quota = headers.get('x-weave-quota-remaining')
  if (quota !== null && quotaForm.test(quota)) notices.quotaRemaining = Math.floor(Number(quota))
}

const quotaForm = /^\d{1,12}(?:\.\d{1,15})?$/

/** The pause between requests that an answer asks for, in seconds; null when it asks none. */
export function readBackoff(headers: Headers): number | null {
  const weave = readSeconds(headers.get('x-weave-backoff'))
  const plain = readSeconds(headers.get('x-backoff'))
  return weave === null && plain === null ? null : Math.max(weave ?? 0, plain ?? 0)
}

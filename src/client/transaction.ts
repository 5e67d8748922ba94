import { readResponses, type TransactionResponse } from './answers.ts'
import { unknownOutcome, type Requests } from './requests.ts'
import { ClientError } from './errors.ts'

/** One request of a transaction. */
export interface TransactionRequest {
  method: 'GET' | 'PUT' | 'DELETE'
  collection: string
  id: string
  headers?: Record<string, string>
  /** The fields to write, for a PUT. */
  data?: { payload?: string; sortindex?: number; ttl?: number }
}

/** The headers of a PUT that depends on the version of the record that it replaces; null: there must be none. */
export function conditionOn(version: number | null): Record<string, string> {
  return version === null ? { 'If-None-Match': '*' } : { 'If-Match': `"${version}"` }
}

/**
 * Sends requests as one transaction; `path` is that of the account's collections. A strict one writes nothing if any request would be refused;
 * `isStrict` says whether the bridge supports that.
 */
export async function sendTransaction(
  bridge: Requests,
  path: string,
  requests: TransactionRequest[],
  { strict = false } = {},
): Promise<{ responses: TransactionResponse[]; isStrict: boolean }> {
  const below = requests.map(({ method, collection, id, headers, data }) => ({
    method,
    path: `${path}${encodeURIComponent(collection)}/records/${encodeURIComponent(id)}`,
    ...(headers && { headers }),
    ...(data && { body: { data } }),
  }))
  const preference = 'handling=strict'
  const asked = bridge.ask('/batch', {
    method: 'POST',
    body: { requests: below },
    ...(strict && { headers: { Prefer: preference } }),
  })
  const { body, headers } = await asked.catch((error: ClientError) => {
    // A bridge returns neither 502 nor 504; a proxy does if it loses the response.
    throw [502, 504].includes(error.status ?? 0) ? unknownOutcome(error) : error
  })
  const responses = readResponses(
    body,
    requests.map(({ method, id }, index) => ({ method, id, path: below[index]!.path })),
  )
  if (responses === null)
    throw new ClientError(
      'The bridge sent responses that do not match the requests: it is unknown what was written. Check before you repeat it.',
      { mayBeApplied: true },
    )
  return {
    responses,
    isStrict: headers.get('Preference-Applied')?.includes(preference) === true,
  }
}

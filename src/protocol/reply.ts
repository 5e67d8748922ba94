import type { Errno } from '../domain/errors.ts'
import { toExposedJson } from '../domain/record.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { CollectionTimestamps, RecordPage } from '../domain/record-storage.ts'
import { toEntityTag, toHttpDate } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { majorVersion } from './exposed.ts'
import type { ExposedSettings } from './exposed.ts'
import { writePageToken } from './list-query.ts'
import { publicOrigin } from './public-address.ts'

/** An answer before it becomes a message: the envelope adds what every answer carries. */
export interface Reply {
  status: number
  headers: Record<string, string>
  /** JSON text or bytes; null for an answer without a body. */
  body: string | Uint8Array | ReadableStream<Uint8Array> | null
  /** The body that a batch shows for an answer without a body. */
  tombstone?: object
  /** Called when the last byte was handed on, or when the client has left. */
  ended?: () => void
  /** What the body of an error answer says, for logs. */
  errno?: Errno
}

/** A plain JSON answer. */
export function jsonReply(value: unknown, headers: Record<string, string> = {}, status = 200): Reply {
  return { status, headers, body: JSON.stringify(value) }
}

/** An answer with a status and nothing else. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null }
}

/** ETag and Last-Modified of a version. */
export function versionHeaders(timestamp: Timestamp): Record<string, string> {
  return { ETag: toEntityTag(timestamp), 'Last-Modified': toHttpDate(timestamp) }
}

/** 304: the client's version is the current one. */
export function notModifiedReply(timestamp: Timestamp): Reply {
  return emptyReply(304, versionHeaders(timestamp))
}

/** The address of a request, of which the URL of the next page is made. Path and query are as they came. */
export interface Address {
  host: string | null
  path: string
  /** With the question mark, or empty. */
  query: string
}

/** A page of records. `isWhole`: the client asked for the whole list. */
export function pageReply(
  page: RecordPage,
  address: Address,
  isWhole: boolean,
  settings: ExposedSettings,
): Reply {
  const headers = versionHeaders(page.timestamp)
  if (page.next) {
    const here = publicOrigin(address.host, settings) + address.path
    headers['Next-Page'] = nextPageUrl(here, address.query, writePageToken(page.next))
  }
  if (isWhole && page.count !== null) headers['Total-Records'] = String(page.count)
  return { status: 200, headers, body: page.document }
}

/** The size of a collection, as headers: what HEAD of a list answers. */
export function countReply(count: number, timestamp: Timestamp): Reply {
  const total = String(count)
  return emptyReply(200, { ...versionHeaders(timestamp), 'Total-Records': total, 'Total-Objects': total })
}

/** One record, also as stored by a PUT. */
export function recordReply(record: SyncRecord, json = toExposedJson(record)): Reply {
  return { status: 200, headers: versionHeaders(record.lastModified), body: `{"data":${json}}` }
}

/** The tombstone of a deleted record: for clients that asked for a representation, and inside batches. */
export function tombstone(id: string, timestamp: Timestamp): { data: object } {
  return { data: { id, last_modified: timestamp, deleted: true } }
}

/** A bucket or a collection: its name and when it last changed. */
export function metadataReply(id: string, timestamp: Timestamp): Reply {
  return jsonReply({ data: { id, last_modified: timestamp } }, versionHeaders(timestamp))
}

/** All collections of a bucket with their timestamps. */
export function collectionsReply(found: CollectionTimestamps): Reply {
  const data = [...found.collections].map(([id, last_modified]) => ({ id, last_modified }))
  const headers = { ...versionHeaders(found.timestamp), 'Total-Records': String(data.length) }
  return jsonReply({ data }, headers)
}

/** Where the next page is: this request's address with its query as it was, and the token. */
function nextPageUrl(here: string, query: string, token: string): string {
  const kept = query
    .replace(/^\?/, '')
    .split('&')
    .filter((part) => part !== '' && !/^_token(=|$)/.test(part))
  return `${here}?${[...kept, `_token=${encodeURIComponent(token)}`].join('&')}`
}

/** The root view: what the service is and can do. Every client asks for it first. */
export function rootReply(origin: string, userId: string | null, settings: ExposedSettings): Reply {
  const url = `${origin}/v${majorVersion(settings)}`
  const docs = settings.projectDocs ?? (settings.docsEnabled ? `${url}/docs` : url)
  return jsonReply({
    project_name: settings.projectName,
    project_docs: docs,
    project_version: settings.projectVersion,
    http_api_version: settings.httpApiVersion,
    toolkit_protocol_version: '2',
    cliquet_protocol_version: '2',
    url,
    ...(settings.eos && { eos: settings.eos.text }),
    settings: {
      batch_max_requests: settings.batchMaxRequests,
      readonly: settings.readonly,
      'cliquet.batch_max_requests': settings.batchMaxRequests,
    },
    capabilities: capabilities(docs),
    ...(userId !== null && { user: { id: userId } }),
  })
}

// No names of extensions that are not here (history, attachments, accounts, permissions_endpoint): a client that sees
// such a name calls what it stands for.
function capabilities(url: string): Record<string, { description: string; url: string }> {
  return {
    sync_bridge: { description: 'The collections of a Firefox Sync storage, encrypted as they are', url },
    bearer_authentication: { description: 'OAuth access tokens, with the key id in X-KeyID', url },
    browserid_authentication: {
      description: 'Identity assertions, for token servers that still take them',
      url,
    },
  }
}

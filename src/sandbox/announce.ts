/** What there is to tell about a running sandbox. */
export interface Announcement {
  tokenServerUrl: string
  storageUrl: string
  /** The sample user's client state, which is the name of the bucket. */
  bucket: string
  assertion: string
  bearerToken: string
  /** The value of X-KeyID that goes with the token. */
  keyId: string
  /** 64 bytes. */
  syncKey: Buffer
  /** Absent when only the upstream was started. */
  bridge?: BridgeAnnouncement
}

/** The bridge that was started over the sandbox. */
export interface BridgeAnnouncement {
  /** Scheme, host and port, without a path. */
  url: string
  /** Where its documentation is served. */
  docsUrl: string
  /** A bookmark that exists, for the request that fetches one record. */
  recordId: string
}

/**
 * The text that the `sandbox` command prints. Lines of the form NAME=value, which a script may read, come first; the
 * values contain no characters that a shell would take for anything else.
 */
export function announce(info: Announcement): string {
  const values: [name: string, value: string][] = [
    ['TOKEN_SERVER_URL', info.tokenServerUrl],
    ['STORAGE_URL', info.storageUrl],
    ['BUCKET', info.bucket],
    ['KEY_ID', info.keyId],
    ['BEARER_TOKEN', info.bearerToken],
    ['ASSERTION', info.assertion],
    ['SYNC_KEY', info.syncKey.toString('hex')],
    ['SYNC_KEY_BASE64', info.syncKey.toString('base64')],
  ]
  if (info.bridge) values.splice(2, 0, ['BRIDGE_URL', info.bridge.url], ['DOCS_URL', info.bridge.docsUrl])
  const block = values.map(([name, value]) => `${name}=${value}`).join('\n')
  const title = info.bridge
    ? 'A Sync storage with sample data, and the bridge over it. Everything is in memory.'
    : 'A Sync storage with sample data. Everything is in memory.'
  return `${title}\n\n${block}\n\n${info.bridge ? bridgeHelp(info, info.bridge) : upstreamHelp(info)}`
}

function bridgeHelp(info: Announcement, { url, docsUrl, recordId }: BridgeAnnouncement): string {
  const identity = [`-H 'Authorization: Bearer ${info.bearerToken}'`, `-H 'X-KeyID: ${info.keyId}'`]
  const bookmarks = `${url}/v1/buckets/${info.bucket}/collections/bookmarks/records`
  return [
    'The root view:',
    curl(`${url}/v1/`),
    'Five bookmarks, newest first:',
    curl(`${bookmarks}?_limit=5`, ...identity),
    'One bookmark:',
    curl(`${bookmarks}/${encodeURIComponent(recordId)}`, ...identity),
    `Documentation: ${docsUrl}\n`,
  ].join('\n')
}

function upstreamHelp(info: Announcement): string {
  const identity = [`-H 'Authorization: Bearer ${info.bearerToken}'`, `-H 'X-KeyID: ${info.keyId}'`]
  return ['Credentials for the storage:', curl(`${info.tokenServerUrl}/1.0/sync/1.5`, ...identity)].join('\n')
}

// One argument a line, to be pasted as it is.
function curl(url: string, ...args: string[]): string {
  return `  ${['curl', ...args, `'${url}'`].join(' \\\n    ')}\n`
}

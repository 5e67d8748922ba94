import type { SandboxUser } from './sandbox-user.ts'
import type { Sandbox } from './sandbox.ts'

/** What the command prints about a running sandbox. */
export interface Announcement {
  tokenServerUrl: string
  storageUrl: string
  /** The sample user's client state: the bucket id. */
  bucket: string
  assertion: string
  bearerToken: string
  /** The X-KeyID header for the token. */
  keyId: string
  /** 64 bytes. */
  syncKey: Buffer
  /** Absent if only the upstream was started. */
  bridge?: BridgeAnnouncement
}

/** The bridge in front of the sandbox. */
export interface BridgeAnnouncement {
  /** Scheme, host and port, without a path. */
  url: string
  /** The address of its API page. */
  docsUrl: string
  isEmpty: boolean
}

/** Describes a sandbox with its user and bridge; `bridgeUrl` is null if there is no bridge. */
export function describeSandbox(sandbox: Sandbox, user: SandboxUser, bridgeUrl: string | null): Announcement {
  const { clientState: bucket, keyId, syncKey } = user
  const expiresInSeconds = 30 * 24 * 3600
  return {
    tokenServerUrl: sandbox.tokenServerUrl,
    storageUrl: sandbox.storageUrl,
    bucket,
    keyId,
    bearerToken: user.bearerToken({ expiresInSeconds }),
    assertion: user.assertion({ expiresInSeconds, certificateExpiresInSeconds: 2 * expiresInSeconds }),
    syncKey,
    ...(bridgeUrl !== null && {
      bridge: {
        url: bridgeUrl,
        docsUrl: `${bridgeUrl}/v1/docs`,
        isEmpty: sandbox.records(user, 'bookmarks').length === 0,
      },
    }),
  }
}

/**
 * Everything that a script needs, as lines `NAME=value`. The values need no quoting in a shell.
 */
export function environmentLines(info: Announcement): string {
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
  return values.map(([name, value]) => `${name}=${value}\n`).join('')
}

/** Links to the pages, which work once. */
export interface PageLinks {
  explorer: string
  docs: string
  /** How to get new ones. */
  hint: string
}

/**
 * The text that the `sandbox` command prints.
 *
 * `environmentFile`: the file with the `environmentLines`; null if there is none, so the text includes them.
 */
export function announce(
  info: Announcement,
  environmentFile: string | null,
  links: PageLinks | null,
): string {
  const values = environmentFile === null ? `${environmentLines(info)}\n` : ''
  if (!info.bridge || !links) {
    return `A Sync storage with sample data. Everything is in memory.\n\n${values}${upstreamHelp()}`
  }
  const storage = info.bridge.isEmpty ? 'An empty Sync storage' : 'A Sync storage with sample data'
  return [
    'Open this in your browser, to see the data decrypted:\n',
    `${links.explorer}\n`,
    `${links.hint} The API page, to try every request:`,
    `  ${links.docs}\n`,
    values + bridgeHelp(environmentFile),
    `${storage}, and a bridge to it at ${info.bridge.url}.`,
    'Everything is in memory. Press Ctrl+C to stop.',
    '',
  ].join('\n')
}

function bridgeHelp(environmentFile: string | null): string {
  return [
    'Ask from another terminal:\n',
    ...(environmentFile === null ? [] : [`  . ${environmentFile}`, '  sync-bridge ls\n']),
    'The same list over HTTP:\n',
    ask('$BRIDGE_URL', '/v1/buckets/$BUCKET/collections'),
  ].join('\n')
}

function upstreamHelp(): string {
  return ['Credentials for the storage:', ask('$TOKEN_SERVER_URL', '/1.0/sync/1.5')].join('\n')
}

// curl reads the token from its input, because other users of the machine can see the arguments of programs.
function ask(server: string, path: string): string {
  const headers = `printf 'Authorization: Bearer %s\\nX-KeyID: %s\\n' "$BEARER_TOKEN" "$KEY_ID"`
  return `  ${headers} |\n    curl -H @- "${server}${path}"\n`
}

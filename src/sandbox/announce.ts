import type { SandboxUser } from './sandbox-user.ts'
import type { Sandbox } from './sandbox.ts'

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
  /** Where its pages are served; without a fragment. */
  docsUrl: string
  explorerUrl: string
  /** A bookmark that exists, for the request that fetches one record; null where there is none. */
  recordId: string | null
}

/** What there is to tell about a sandbox with that user, and about the bridge at that address; null: there is none. */
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
        explorerUrl: `${bridgeUrl}/v1/explore`,
        recordId: sandbox.records(user, 'bookmarks').find(({ id }) => /^\w+$/.test(id))?.id ?? null,
      },
    }),
  }
}

/**
 * Lines of the form NAME=value with everything that a script needs. The values contain no characters that a shell would
 * take for anything else.
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

/** Addresses that fit into a line of a terminal and lead to the pages. */
export interface ShortLinks {
  explorer: string
  docs: string
  stop(): Promise<void>
}

/**
 * Serves the short addresses of the bridge's pages. Those of the pages themselves carry who the user is, and fill several lines.
 *
 * `secret`: what nobody else on the machine can guess, because it stands for the user's token and key.
 */
export function startShortLinks(info: Announcement, bridge: BridgeAnnouncement, secret: string): ShortLinks {
  const targets = new Map([
    [`/${secret}`, linkTo(bridge.explorerUrl, info, true)],
    [`/${secret}/docs`, linkTo(bridge.docsUrl, info, false)],
  ])
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ url }) {
      const target = targets.get(new URL(url).pathname)
      if (target === undefined) return new Response(null, { status: 404 })
      return new Response(null, { status: 302, headers: { Location: target, 'Cache-Control': 'no-store' } })
    },
  })
  const explorer = `http://127.0.0.1:${server.port}/${secret}`
  return { explorer, docs: `${explorer}/docs`, stop: () => server.stop(true) }
}

/**
 * The text that the `sandbox` command prints.
 *
 * `environmentFile`: where the lines of `environmentLines` are; null: nowhere, so they are part of the text.
 */
export function announce(
  info: Announcement,
  environmentFile: string | null,
  links: ShortLinks | null,
): string {
  const values = environmentFile === null ? `${environmentLines(info)}\n` : ''
  if (!info.bridge || !links) {
    return `A Sync storage with sample data. Everything is in memory.\n\n${values}${upstreamHelp(info)}`
  }
  const storage = info.bridge.recordId === null ? 'An empty Sync storage' : 'A Sync storage with sample data'
  return [
    `${storage}, and the bridge over it at ${info.bridge.url}.`,
    'Everything is in memory; Ctrl+C ends it.\n',
    'Look at the data, decrypted in your browser:',
    `  ${links.explorer}\n`,
    values + bridgeHelp(info.bridge, environmentFile),
    'Documentation, where every request can be tried:',
    `  ${links.docs}\n`,
  ].join('\n')
}

// In the fragment, because browsers do not send it: what is in there reaches the page, and no server or log. The key is nobody's, so
// the page may keep it for a reload.
function linkTo(url: string, info: Announcement, needsKey: boolean): string {
  const values = [
    ['BUCKET', info.bucket],
    ['KEY_ID', info.keyId],
    ['BEARER_TOKEN', info.bearerToken],
    ...(needsKey
      ? [
          ['SYNC_KEY', info.syncKey.toString('hex')],
          ['KEEP_KEY', 'yes'],
        ]
      : []),
  ]
  return `${url}#${values.map(([name, value]) => `${name}=${value}`).join('&')}`
}

function bridgeHelp({ recordId }: BridgeAnnouncement, environmentFile: string | null): string {
  const identity = [`-H "Authorization: Bearer $BEARER_TOKEN"`, `-H "X-KeyID: $KEY_ID"`]
  const bookmarks = '$BRIDGE_URL/v1/buckets/$BUCKET/collections/bookmarks/records'
  return [
    'Or ask in another terminal:',
    ...(environmentFile === null ? [] : [`  . ${environmentFile}\n`]),
    curl(`${bookmarks}?_limit=5`, ...identity),
    ...(recordId === null ? [] : [curl(`${bookmarks}/${encodeURIComponent(recordId)}`, ...identity)]),
  ].join('\n')
}

function upstreamHelp(info: Announcement): string {
  const identity = [`-H 'Authorization: Bearer ${info.bearerToken}'`, `-H 'X-KeyID: ${info.keyId}'`]
  return ['Credentials for the storage:', curl(`${info.tokenServerUrl}/1.0/sync/1.5`, ...identity)].join('\n')
}

// One argument a line, to be pasted as it is.
function curl(url: string, ...args: string[]): string {
  return `  ${['curl', ...args, `"${url}"`].join(' \\\n    ')}\n`
}

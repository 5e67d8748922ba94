const kibibyte = 1024
const mebibyte = 1024 * kibibyte

/**
 * Every limit of what one process and one user may take that no setting names. `docs/operate.md` shows them, and a test holds
 * that it does.
 */
export const limits = {
  /** Of permits, one holder alone gets so many times what it leaves, beyond the reserve; see `permits.ts`. */
  shareOfRest: 7,
  /** The share of all permits that is left to small holders. */
  reserveShare: 1 / 32,
  /** So many permits are few for one user. */
  fewPermits: 8,
  /** The share of the calls in flight that may be to the token server. Others are left when strangers make up tokens. */
  tokenShare: 0.5,
  /** The share of these that root views may have. */
  rootViewShare: 0.125,
  /** Lists in flight, from the question to the last byte; each holds up to 2 MB of the storage's answer. */
  lists: 48,
  /** How long a call waits for its turn. */
  callWaitMs: 5000,
  /** Idle connections of HTTP/1.1 that the runtime keeps; it closes the others. */
  keptConnections: 64,
  /** Connections of HTTP/1.1 of all workers to one origin, where the port of a closed one can't be used again for a minute. */
  connections: 256,
  /**
   * How long a call waits for a connection in use before it opens another one. Where the shortest calls take no longer than this,
   * more connections would not help, and it waits ten times as long.
   */
  connectionWaitMs: 15,
  /** How long a list waits for its turn. */
  listWaitMs: 10_000,
  /** Calls that wait, for each request that may be in flight: a batch makes several calls at a time. */
  callsWaitingForRequest: 4,

  /** Bytes held for all requests together: bodies, answers that are not streamed, and lists that batches read. */
  memoryBytes: 128 * mebibyte,
  /** Bytes of stored records and lists in the answer of one batch. */
  batchAnswerBytes: 16 * mebibyte,
  /** Resident memory above which garbage is collected, and how much more it grows until the next collection. */
  collectAboveBytes: 128 * mebibyte,
  collectEveryBytes: 64 * mebibyte,
  /** After so many bytes of garbage, resident memory is looked at out of turn. */
  watchEveryBytes: 16 * mebibyte,
  /** Resident memory above which nothing new is admitted; proportionally more for more than 2048 requests in flight. */
  shedAboveBytes: 384 * mebibyte,

  /** How long the first byte of a body may take. */
  firstByteMs: 10_000,
  /** Bodies up to this size are received whole, and at least at this rate. */
  smallBodyBytes: 64 * kibibyte,
  smallBodyBytesPerMs: 2,

  /** How much of a large answer a reader takes at least, over this time. */
  slowReaderBytes: 30 * kibibyte,
  slowReaderMs: 30_000,
  /** When so many lists are in flight, readers that take less than this are ended to make room. */
  crowdedLists: 40,
  crowdedBytesPerMs: 16,
  crowdedAfterMs: 3000,

  /** Above this share of the requests in flight, one user has no more than `max_concurrent_requests_per_user`. */
  busyShare: 0.8,
  /** What one user holds beyond this share does not count against others. */
  userShare: 0.25,
  /** The fewest requests in flight that a late event loop leaves. */
  leastRequests: 64,
  /** After so long above `busyShare`, clients are asked to stay away for this time. */
  backoffAfterMs: 5000,
  backoffSeconds: 30,
} as const

/** The connections of HTTP/1.1 to one origin that each of so many workers may have, where a port can't be used again at once. */
export function connectionLimit(workers: number): number {
  return Math.max(limits.keptConnections, limits.connections / workers)
}

/**
 * The calls in flight that the slots of `fetch` allow: those for lists, and all others together; of these, those to the token
 * server. And the root views that may ask it.
 */
export function callLimits(fetchSlots: number) {
  const lists = Math.min(limits.lists, Math.ceil(fetchSlots / 4))
  const calls = Math.max(2, fetchSlots - lists)
  const token = Math.ceil(limits.tokenShare * calls)
  return { lists, calls, token, rootViews: Math.ceil(limits.rootViewShare * token) }
}

const mebibyte = 1024 * 1024

/**
 * Every limit of what one process and one user may take that no setting names. `docs/operate.md` explains each in one sentence, and a
 * test holds that it does.
 */
export const limits = {
  /** Calls to a host that one user may have in flight. */
  callsPerUser: 64,
  /** The share of `fetch`'s slots that calls to one host may take, the token server included. */
  hostShare: 0.25,
  /** Calls in flight to a host over HTTP/1.1: as many connections as the runtime keeps open. */
  callsOverHttp1: 64,
  /** The share of `fetch`'s slots that is kept free for calls that finish or undo a commit, which never wait. */
  commitShare: 1 / 16,
  /** Lists in flight, from the question to the last byte; each holds up to 2 MB of the storage's answer. */
  lists: 48,
  /** Lists of one storage node in flight. */
  listsPerHost: 36,
  /** Lists of one user in flight. */
  listsPerUser: 8,
  /** Root views that may ask the token server at a time: anybody can make up a token, and others need it too. */
  rootViews: 32,
  /** How long a call or a list waits for its turn. */
  waitMs: 5000,

  /** Bytes held for all requests together: bodies, answers that are not streamed, and lists that batches read. */
  memoryBytes: 128 * mebibyte,
  /** Bytes of stored records and lists in the answer of one batch. */
  batchAnswerBytes: 16 * mebibyte,
  /** Resident memory above which nothing new is admitted. */
  shedAboveBytes: 384 * mebibyte,

  /** How long the first byte of a body may take. */
  firstByteMs: 10_000,
  /** An answer is cut when its reader has taken nothing for this long. */
  stalledReaderMs: 60_000,
} as const

/** How many calls may be in flight with so many slots of `fetch`: in all, and to one host. */
export function callLimits(fetchSlots: number): { calls: number; ofHost: number; lists: number } {
  const lists = Math.min(limits.lists, Math.ceil(fetchSlots / 4))
  const calls = Math.max(1, fetchSlots - lists - Math.ceil(limits.commitShare * fetchSlots))
  // With few slots a host still gets what one user may have.
  const ofHost = Math.min(calls, Math.max(limits.callsPerUser, Math.ceil(limits.hostShare * fetchSlots)))
  return { calls, ofHost, lists }
}

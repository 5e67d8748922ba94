const mebibyte = 1024 * 1024

/**
 * The limits of one process and one user that no setting controls. `docs/scale.md` explains each in one sentence; a test checks that it
 * does.
 */
export const limits = {
  /** Calls in flight to one host for one user. */
  callsPerUser: 16,
  /** The share of `fetch` slots for calls to one host, the token server included. */
  hostShare: 0.25,
  /** The share of `fetch` slots reserved for calls that finish or undo a commit; these never wait. */
  commitShare: 1 / 16,
  /** Lists that stream, until their last byte; each buffers up to 2 MB. */
  lists: 48,
  /** The same from one storage node. */
  listsPerHost: 36,
  /** The same for one user. */
  listsPerUser: 8,
  /** Root views that may call the token server at a time; they need no valid token, so they must not block users. */
  rootViews: 32,
  /** How long a call or a list waits for a permit. */
  waitMs: 5000,

  /** Memory for all requests: bodies, buffered responses, and lists that batches read. */
  memoryBytes: 128 * mebibyte,
  /** Bytes of stored records and lists in the response to one batch. */
  batchResponseBytes: 16 * mebibyte,
  /** Resident memory above which new requests are rejected. */
  rejectAboveBytes: 384 * mebibyte,

  /** Timeout for the first byte of a body. */
  firstByteMs: 10_000,
  /**
   * The reader of a response above 256 KB is disconnected if it shows no progress for this long. Progress shows only every 1.5 MB, the step in which
   * the system takes more, so a steady reader that is slower than that is disconnected, too.
   */
  stalledReaderMs: 60_000,
  /** The same for a list while another one waits for its permit. */
  yieldAfterMs: 5000,
}

export type Limits = typeof limits

/**
 * The limits of a bridge inside a command, which serves one person: it rejects nothing, disconnects no reader, and waits. The memory of that
 * process is the command's, which bounds it itself.
 */
export const limitsForOnePerson: Limits = {
  ...limits,
  // The longest time of a timer.
  waitMs: 2 ** 31 - 1,
  memoryBytes: Infinity,
  batchResponseBytes: Infinity,
  rejectAboveBytes: Infinity,
  stalledReaderMs: Infinity,
  yieldAfterMs: Infinity,
}

/** Maximum calls and lists in flight for a number of `fetch` slots: in all, and for one host. */
export function callLimits(fetchSlots: number): { calls: number; ofHost: number; lists: number } {
  const lists = Math.min(limits.lists, Math.ceil(fetchSlots / 4))
  const calls = Math.max(1, fetchSlots - lists - Math.ceil(limits.commitShare * fetchSlots))
  // With few slots, a host still gets the calls of one user.
  const ofHost = Math.min(calls, Math.max(limits.callsPerUser, Math.ceil(limits.hostShare * fetchSlots)))
  return { calls, ofHost, lists }
}

/**
 * Who asks the token server or a storage again, for what, how often, and after which pauses. Nothing else asks twice, and every deadline ends
 * retries early. The table in `docs/architecture.md` says the same in words; a test compares the figures.
 *
 * The runtime itself repeats a GET once when a kept connection dies. It would repeat a DELETE as well, so that has a connection of its own.
 */
export const retries = {
  /** `upstream/send`: a read that got no response, except after a timeout, or a 408 or 5xx without Retry-After. Random pause. */
  read: { times: 1, minPauseMs: 50, maxPauseMs: 150 },
  /** `upstream/token-server`: an exchange of credentials whose response is not JSON. */
  exchange: { times: 1 },
  /** `upstream/signed-call`: a call whose credentials the storage rejected, with new ones. */
  renewal: { times: 1 },
  /** `upstream/list`: a list whose stream breaks before its first record, or that names records and no timestamp. */
  list: { times: 1 },
  /** `upstream/consistent-read`: reads that belong together, while the collection changes. */
  consistentRead: { times: 3 },
  /** `batch/known-collection`: reading and deciding again after another writer. Pauses as for `write`. */
  round: { times: 4 },
  /** `batch/known-collection`: creating the row of a new collection. Another client's first upload takes less than the pause. */
  row: { times: 3, pauseMs: 100 },
  /** `batch/context`: staging or committing while nothing is visible. The pause doubles, and is multiplied by 0.5 to 1.5 at random. */
  write: { times: 5, firstPauseMs: 25, maxPauseMs: 1000 },
  /** `batch/commit`: completing a partly visible commit, 0.1, 0.3 and 0.9 s after it failed. */
  forward: { pausesMs: [100, 200, 600] },
  /** `batch/commit`: then undo and commit in turn, until one is complete. Long enough for a restart of the storage. */
  inTurn: { firstPauseMs: 250, maxPauseMs: 2000 },
  /** `batch/written-collection`: preventing a lost write from being applied late, when nothing else is visible; otherwise as `inTurn`. */
  fence: { times: 2 },
} as const

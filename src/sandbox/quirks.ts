/** Which of the four storage implementations the sandbox behaves like, where they differ. */
export type Mode = 'postgres' | 'mysql' | 'spanner' | 'python'

/** The points in which the implementations differ and that a client can observe. */
export interface Quirks {
  readonly mode: Mode
  /** The Python server, whose HTTP details differ from those of the three Rust ones. */
  readonly isPython: boolean
  /** Ids that differ only in case or trailing blanks name one record; the last spelling wins. */
  readonly foldsIds: boolean
  /** An expired record still has a timestamp as far as preconditions are concerned. */
  readonly expiredCounts: boolean
  /** Lists without `sort` come newest first, or in no useful order. */
  readonly defaultSort: 'newest' | 'none'
  /** Lists of bare ids have no order unless asked for. */
  readonly unorderedIds: boolean
  /** Next offsets are plain numbers even where a position by time would be possible. */
  readonly plainOffsets: boolean
  /** Most records that a list without `limit` returns; null for all of them. */
  readonly listCap: number | null
  readonly batchIdForm: 'uuid' | 'decimal' | 'hex'
  /** Staging an id twice overwrites the payload of everything staged so far. */
  readonly appendOverwritesAll: boolean
}

const rust = { isPython: false, foldsIds: false, expiredCounts: true, defaultSort: 'newest' } as const
const exact = { unorderedIds: false, plainOffsets: false, listCap: null, appendOverwritesAll: false } as const

const quirksByMode: Record<Mode, Quirks> = {
  postgres: { mode: 'postgres', ...rust, ...exact, batchIdForm: 'uuid' },
  mysql: {
    mode: 'mysql',
    ...rust,
    ...exact,
    foldsIds: true,
    unorderedIds: true,
    listCap: 10_000,
    batchIdForm: 'decimal',
    appendOverwritesAll: true,
  },
  spanner: {
    mode: 'spanner',
    ...rust,
    ...exact,
    expiredCounts: false,
    defaultSort: 'none',
    plainOffsets: true,
    batchIdForm: 'hex',
  },
  python: {
    mode: 'python',
    ...rust,
    ...exact,
    isPython: true,
    foldsIds: true,
    expiredCounts: false,
    batchIdForm: 'decimal',
  },
}

/** What is peculiar to one implementation. */
export function quirksOf(mode: Mode): Quirks {
  return quirksByMode[mode]
}

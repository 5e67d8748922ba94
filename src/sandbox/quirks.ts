/** Which of the four storage implementations the sandbox behaves like, where they differ. */
export type Mode = 'postgres' | 'mysql' | 'spanner' | 'python'

/** The points in which the implementations differ and that a client can observe. */
export interface Quirks {
  readonly mode: Mode
  /** The Python server, whose HTTP details differ from those of the three Rust ones. */
  readonly isPython: boolean
  /**
   * Ids that differ only in case or trailing blanks name one record, of which the last spelling is shown; names of
   * collections likewise, of which the first is.
   */
  readonly foldsIds: boolean
  /** An expired record still has a timestamp as far as preconditions are concerned. */
  readonly expiredCounts: boolean
  /** Lists without `sort` come newest first, or in no useful order. */
  readonly defaultSort: 'newest' | 'none'
  /** Lists of bare ids have no order unless asked for. */
  readonly unorderedIds: boolean
  /** In the order of sortindex, records without one come first instead of last. */
  readonly unsortedFirst: boolean
  /** Next offsets are plain numbers even where a position by time would be possible. */
  readonly plainOffsets: boolean
  /** Most records that a list without `limit` returns; null for all of them. */
  readonly listCap: number | null
  readonly batchIdForm: 'uuid' | 'decimal' | 'hex'
  /** Payloads that the database can hold; others end as its error. */
  readonly storable: RegExp
  /** Staging an id twice overwrites the payload of everything staged so far. */
  readonly appendOverwritesAll: boolean
}

const rust = { isPython: false, foldsIds: false, expiredCounts: true, defaultSort: 'newest' } as const
const exact = {
  unorderedIds: false,
  unsortedFirst: false,
  plainOffsets: false,
  listCap: null,
  appendOverwritesAll: false,
  storable: /^[^]*$/,
} as const

const quirksByMode: Record<Mode, Quirks> = {
  postgres: {
    mode: 'postgres',
    ...rust,
    ...exact,
    unsortedFirst: true,
    storable: /^[^\0]*$/,
    batchIdForm: 'uuid',
  },
  mysql: {
    mode: 'mysql',
    ...rust,
    ...exact,
    foldsIds: true,
    unorderedIds: true,
    listCap: 10_000,
    batchIdForm: 'decimal',
    appendOverwritesAll: true,
    storable: /^[\0-\u00ff]*$/,
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

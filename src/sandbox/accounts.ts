import { invalidClientState, TokenError, unauthorized } from './identities.ts'

/** The account data in a verified identity. */
export interface Claimed {
  email: string
  /** Empty if the client sent none. */
  clientState: string
  /** Null if unknown or zero. */
  generation: number | null
  keysChangedAt: number | null
}

/** One row of the token server: each client state of an account has its own uid. */
export interface AccountRow {
  uid: number
  email: string
  clientState: string
  generation: number | null
  keysChangedAt: number | null
}

/** The token server's table of users. */
export class Accounts {
  readonly #rows: AccountRow[] = []
  #nextUid: number

  constructor(firstUid: number) {
    this.#nextUid = firstUid
  }

  /** The row for the claimed identity, created or updated as needed; throws TokenError. */
  resolve(claimed: Claimed): AccountRow {
    if (claimed.clientState.length > 32) {
      // It does not fit into the column, and the server passes the database error on as 500.
      throw new TokenError(500, 'internal-error', 'internal', '', 'Database error')
    }
    const known = this.#rows.findLast((row) => row.email === claimed.email)
    const current = known ?? this.#add(claimed)
    this.#check(claimed, current)
    return this.#update(claimed, current)
  }

  /** Adds an account. */
  register(claimed: Claimed): AccountRow {
    return this.#add(claimed)
  }

  /** The newest row of an account, or of one of its client states. */
  find(email: string, clientState?: string): AccountRow | undefined {
    return this.#rows.findLast(
      (row) => row.email === email && (clientState === undefined || row.clientState === clientState),
    )
  }

  /** Gives the account a new uid, as when its node is shut down; returns the previous row. */
  move(email: string): AccountRow | undefined {
    const row = this.find(email)
    if (row !== undefined) this.#add(row)
    return row
  }

  #check(claimed: Claimed, current: AccountRow): void {
    const stateChanged = claimed.clientState !== current.clientState
    if (current.clientState !== '' && claimed.clientState === '') {
      throw invalidClientState('Unacceptable client-state value empty string')
    }
    if (stateChanged && this.find(claimed.email, claimed.clientState) !== undefined) {
      throw invalidClientState('Unacceptable client-state value stale value')
    }
    if (stateChanged && isAtMost(claimed.generation, current.generation)) {
      throw invalidClientState('Unacceptable client-state value new value with no generation change')
    }
    if (stateChanged && isAtMost(claimed.keysChangedAt, current.keysChangedAt)) {
      throw invalidClientState('Unacceptable client-state value new value with no keys_changed_at change')
    }
    if (isBelow(claimed.generation, current.generation)) throw unauthorized('invalid-generation')
    if (isBelow(claimed.keysChangedAt, current.keysChangedAt)) throw unauthorized('invalid-keysChangedAt')
    if (claimed.keysChangedAt === null && current.keysChangedAt !== null) {
      throw unauthorized('invalid-keysChangedAt')
    }
    if (isBelow(claimed.generation, claimed.keysChangedAt)) throw unauthorized('invalid-keysChangedAt')
  }

  #update(claimed: Claimed, current: AccountRow): AccountRow {
    const generation = newest(claimed.generation, current.generation)
    const keysChangedAt = newest(claimed.keysChangedAt, current.keysChangedAt)
    if (claimed.clientState === current.clientState) {
      return Object.assign(current, { generation, keysChangedAt })
    }
    return this.#add({ ...claimed, generation, keysChangedAt })
  }

  #add({ email, clientState, generation, keysChangedAt }: Claimed): AccountRow {
    const row = { uid: this.#nextUid++, email, clientState, generation, keysChangedAt }
    this.#rows.push(row)
    return row
  }
}

// A comparison with an unknown number never fails.
function isBelow(left: number | null, right: number | null): boolean {
  return left !== null && right !== null && left < right
}

function isAtMost(left: number | null, right: number | null): boolean {
  return left !== null && right !== null && left <= right
}

function newest(left: number | null, right: number | null): number | null {
  return left === null ? right : Math.max(left, right ?? left)
}

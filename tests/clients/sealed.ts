import { randomBytes } from 'node:crypto'
import type { Sandbox } from '../support/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** An application's record. */
export interface Bookmark {
  title: string
}

/**
 * Formats a bookmark, or its tombstone, as a payload that looks like Firefox's. The ciphertext is plain text in disguise, because the
 * service never looks at it.
 */
export function seal(id: string, content: Bookmark | 'deleted'): string {
  const clear = content === 'deleted' ? { id, deleted: true } : { id, ...content }
  const ciphertext = Buffer.from(JSON.stringify(clear)).toString('base64')
  return JSON.stringify({ ciphertext, IV: randomBytes(16).toString('base64'), hmac: '' })
}

/** The bookmark in a payload, or `deleted`. */
export function unseal(payload: string): Bookmark | 'deleted' {
  const { ciphertext } = JSON.parse(payload) as { ciphertext: string }
  const clear = JSON.parse(Buffer.from(ciphertext, 'base64').toString()) as Partial<Bookmark> & {
    deleted?: true
  }
  return clear.deleted ? 'deleted' : { title: clear.title ?? '' }
}

/** A Firefox of the account: it does not know the service and uses the storage directly. */
export class FakeFirefox {
  constructor(
    private readonly sandbox: Sandbox,
    private readonly user: SandboxUser,
    private readonly collection = 'bookmarks',
  ) {}

  /** Like all methods, returns the storage's timestamp. */
  write(id: string, title: string): number {
    return this.#put(id, seal(id, { title }))
  }

  /** Deletes like Firefox: with an encrypted tombstone. */
  remove(id: string): number {
    return this.#put(id, seal(id, 'deleted'))
  }

  /** Deletes without a tombstone, as wiping an engine does. */
  wipe(...ids: string[]): number {
    return this.sandbox.remove(this.user, this.collection, ids)
  }

  /** The titles that it shows, by id. */
  titles(): Record<string, string> {
    const shown: Record<string, string> = {}
    for (const { id, payload } of this.sandbox.records(this.user, this.collection)) {
      const content = unseal(payload)
      if (content !== 'deleted') shown[id] = content.title
    }
    return shown
  }

  #put(id: string, payload: string): number {
    return this.sandbox.write(this.user, this.collection, [{ id, payload }])
  }
}

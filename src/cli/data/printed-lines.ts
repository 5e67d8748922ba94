import { createHash } from 'node:crypto'

/** A line of an item: its text without the mark, and the folder that it is in; none for the outermost. */
export interface PrintedLine {
  id: string
  text: string
  folder: string | undefined
}

/**
 * What lines were when they were printed, as digests that go along with them. So a line that is unchanged is no edit, and what other devices
 * have changed since is known.
 */
export class PrintedLines {
  /** The position of each digest. */
  readonly #places: ReadonlyMap<string, number>

  private constructor(digests: readonly string[]) {
    this.#places = new Map(digests.map((digest, place) => [digest, place]))
  }

  static of(lines: readonly PrintedLine[]): PrintedLines {
    return new PrintedLines(
      lines.flatMap(({ id, text, folder }) => [
        digest('id', id),
        digest('text', id, text),
        ...(folder === undefined ? [] : [digest('folder', id, folder)]),
      ]),
    )
  }

  static parse(text: string): PrintedLines {
    return new PrintedLines(text.match(/.{5}/g) ?? [])
  }

  toString(): string {
    return [...this.#places.keys()].join('')
  }

  has(id: string): boolean {
    return this.#places.has(digest('id', id))
  }

  hasText(id: string, text: string): boolean {
    return this.#places.has(digest('text', id, text))
  }

  /** A number that orders the items of a folder; undefined for one that was not in it. */
  placeIn(folder: string, id: string): number | undefined {
    return this.#places.get(digest('folder', id, folder))
  }
}

/** 30 bits: of ten thousand lines, one in thirty thousand would be taken for unchanged. */
function digest(...what: string[]): string {
  return createHash('sha256').update(JSON.stringify(what)).digest('base64url').slice(0, 5)
}

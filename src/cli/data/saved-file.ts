import { createReadStream } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { fileOf } from './backup-folder.ts'
import type { StoredRecord } from '../../client/collection.ts'

/** Where a record is in the file. */
interface Place {
  offset: number
  length: number
}

const lineFeed = 10

/** The file of a collection in a backup, of which only the places of the records are kept in memory. */
export class SavedFile {
  private constructor(
    private readonly path: string,
    private readonly file: FileHandle,
    private readonly places: ReadonlyMap<string, Place>,
  ) {}

  /** Rejects with `ClientError` if the file can't be read or is damaged. */
  static async open(backup: string, collection: string): Promise<SavedFile> {
    const path = join(backup, fileOf(collection))
    try {
      return new SavedFile(path, await open(path), await findPlaces(path))
    } catch (error) {
      throw unreadableFile(path, error)
    }
  }

  get ids(): Iterable<string> {
    return this.places.keys()
  }

  get size(): number {
    return this.places.size
  }

  has(id: string): boolean {
    return this.places.has(id)
  }

  /** The size of a record that the file has, in bytes; 0 for others. */
  bytesOf(id: string): number {
    return this.places.get(id)?.length ?? 0
  }

  /** Reads a record that the file has. */
  async read(id: string): Promise<StoredRecord> {
    const { offset, length } = this.places.get(id)!
    const bytes = Buffer.allocUnsafe(length)
    try {
      const { bytesRead } = await this.file.read(bytes, 0, length, offset)
      if (bytesRead === length) return JSON.parse(bytes.toString()) as StoredRecord
    } catch (error) {
      throw unreadableFile(this.path, error)
    }
    throw new ClientError(`${this.path} has changed meanwhile`)
  }

  async close(): Promise<void> {
    await this.file.close()
  }
}

async function findPlaces(path: string): Promise<Map<string, Place>> {
  const places = new Map<string, Place>()
  let rest: Buffer[] = []
  let [offset, length] = [0, 0]
  const add = () => {
    const line = Buffer.concat(rest)
    const { id }: StoredRecord = JSON.parse(line.toString())
    if (typeof id !== 'string') throw new SyntaxError('a line without an id')
    places.set(id, { offset, length })
    offset += length + 1
    rest = []
    length = 0
  }
  for await (const chunk of createReadStream(path, { highWaterMark: 256 * 1024 })) {
    const bytes = chunk as Buffer
    let from = 0
    for (let end = bytes.indexOf(lineFeed); end >= 0; end = bytes.indexOf(lineFeed, from)) {
      rest.push(bytes.subarray(from, end))
      length += end - from
      add()
      from = end + 1
    }
    rest.push(bytes.subarray(from))
    length += bytes.length - from
  }
  if (length > 0) add()
  return places
}

function unreadableFile(path: string, error: unknown): ClientError {
  return error instanceof SyntaxError
    ? new ClientError(`${path} is damaged`)
    : new ClientError(`Cannot read ${path} (${reasonOf(error)})`)
}

/** CSV and JSON lists, in parts because they may be long. */
import { forSpreadsheet, jsonText } from './safe-text.ts'

/** How a file is written. */
export interface FormatOptions {
  /** Keeps texts in CSV exact, without the apostrophe before what a spreadsheet would evaluate. @default false */
  isRaw?: boolean
}

/** Writes data as text, or as parts of a text. */
export type Format<Data> = (data: Data, options?: FormatOptions) => string | Iterable<string>

/** Formats a time as ISO 8601; empty for 0. */
export function isoOf(atMs: number): string {
  return atMs > 0 ? new Date(atMs).toISOString() : ''
}

const rowsInPart = 100

/** Formats CSV (RFC 4180) with quotes around every cell. Texts are safe for spreadsheets, unless they are wanted raw. */
export function* csv(
  columns: string[],
  rows: Iterable<(string | number)[]>,
  { isRaw = false }: FormatOptions = {},
): Generator<string> {
  const cellOf = (value: string | number) =>
    `"${(isRaw || typeof value === 'number' ? String(value) : forSpreadsheet(value)).replaceAll('"', '""')}"`
  let part = `${columns.map(cellOf).join(',')}\r\n`
  let count = 0
  for (const row of rows) {
    part += `${row.map(cellOf).join(',')}\r\n`
    count += 1
    if (count % rowsInPart > 0) continue
    yield part
    part = ''
  }
  yield part
}

/** Formats a JSON list with an item on each line, as a file. */
export function* jsonList(items: Iterable<unknown>): Generator<string> {
  yield* jsonLines(items)
  yield '\n'
}

/** The same without a line break at the end. */
export function* jsonLines(items: Iterable<unknown>): Generator<string> {
  let part = '['
  let count = 0
  for (const item of items) {
    part += `${count === 0 ? '' : ','}\n${jsonText(item)}`
    count += 1
    if (count % rowsInPart > 0) continue
    yield part
    part = ''
  }
  yield count === 0 ? '[]' : `${part}\n]`
}

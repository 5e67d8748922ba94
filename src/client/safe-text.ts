/** Makes texts safe for where they are shown: titles and addresses come from web sites. */

/** Control characters, C1 included, and those that change the direction of the text around them. */
const unsafe = '\\p{Cc}\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069'
const unsafeRun = new RegExp(`(?!\\n)[${unsafe}]+`, 'gu')
const unsafeInJson = new RegExp(`[${unsafe}]`, 'gu')

/** For a terminal, which interprets control characters. Keeps line breaks. */
export function printable(text: unknown): string {
  return String(text).replaceAll('\r\n', '\n').replaceAll(unsafeRun, ' ')
}

/** The same in a single line. */
export function printableLine(text: unknown): string {
  return printable(text).replaceAll('\n', ' ')
}

/**
 * For a cell of a spreadsheet, which evaluates a text that begins like a formula: an apostrophe before it makes it text. Removes NUL, at which
 * some programs stop.
 */
export function forSpreadsheet(text: string): string {
  return text.replaceAll('\0', '').replace(/^[=+\-@\t\r\n＝＋－＠]/, "'$&")
}

/** For HTML, which can't contain control characters, on one line because many programs parse lines of the file that browsers import. */
export function forHtml(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  return text.replaceAll(/\p{Cc}+/gu, ' ').replaceAll(/[&<>"]/g, (char) => names[char]!)
}

/** For Markdown, on one line: no markup, no image, no entity, and no address that would become a link. */
export function forMarkdown(text: string): string {
  return text
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .replaceAll(/[\\`*_[\]<>#!~|]|&(?=#?\w{1,32};)|:(?=\/\/)|(?<=\bwww)\./gi, '\\$&')
}

/** A Markdown link; without a title, it shows its address. */
export function markdownLink(title: string, url: string): string {
  const address = url
    .replaceAll(/[<>\s\p{Cc}]/gu, encodeURIComponent)
    .replaceAll(/\\|&(?=#?\w{1,32};)/g, '\\$&')
  return `[${forMarkdown(title || url)}](<${address}>)`
}

/** For a list with an address in each line: white space and control characters are encoded. */
export function forUrlList(url: string): string {
  return url.replaceAll(/[\s\p{Cc}]/gu, encodeURIComponent)
}

/**
 * JSON on one line that every parser accepts and every terminal can show: control and direction characters are escaped, and unpaired
 * surrogates, which jq and others reject, become U+FFFD.
 */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value).replaceAll(unsafeInJson, escapeInJson)
  if (!text.includes('\\ud')) return text
  return text.replaceAll(/\\(?:ud[89a-f][\da-f]{2}|.)/g, (escaped) =>
    escaped.length > 2 ? '\uFFFD' : escaped,
  )
}

function escapeInJson(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}

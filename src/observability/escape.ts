/**
 * Quotes a text for one line of output, as JSON does, and besides escapes what would end the line, move the cursor or
 * turn the writing direction. Longer texts are cut.
 */
export function quoteText(text: string, maxLength: number): string {
  return escapeInvisible(JSON.stringify(cutText(text, maxLength)))
}

/** The text itself, or its beginning and an ellipsis when it is longer. */
export function cutText(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text
}

const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Replaces control and format characters and line separators by the escapes of JSON; for text inside JSON strings. */
export function escapeInvisible(json: string): string {
  return json.replace(invisible, (character) => {
    const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}

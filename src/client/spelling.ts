/** Compares texts that people type with texts that they see. */

/** A text with composed accents and plain spaces: both forms of "é", and a no-break space, look the same. */
export function composed(text: string): string {
  return text.normalize('NFC').replaceAll(/\s+/g, ' ').trim()
}

/** A text for searching: composed, in lower case, without accents, so "uber" finds "Über". */
export function folded(text: string): string {
  const lower = text.toLowerCase()
  // Normalization is slow, and most texts are ASCII.
  const plain = /[\u0080-\uffff]/.test(lower) ? lower.normalize('NFKD').replaceAll(/\p{M}/gu, '') : lower
  return plain.replaceAll(/\s+/g, ' ').trim()
}

/** The words of a search. All must match, in any order; case and accents don't matter. */
export function wordsOf(typed: string): string[] {
  return folded(typed).split(' ').filter(Boolean)
}

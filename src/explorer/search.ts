import { fold, type Group } from './meaning.ts'

/** The words of a search. All must match, in any order; case and accents don't matter. */
export function wordsOf(typed: string): string[] {
  return fold(typed).split(/\s+/).filter(Boolean)
}

/** Searches groups. A longer query only searches the results of the shorter one. */
export class Search {
  readonly #last = new WeakMap<Group[], { words: string[]; found: Group[] }>()

  /** The items that contain all words; everything without words. */
  matching(groups: Group[], words: string[]): Group[] {
    if (words.length === 0) return groups
    const last = this.#last.get(groups)
    const isNarrower = last?.words.every((word) => words.some((longer) => longer.includes(word)))
    const found = (isNarrower ? last!.found : groups).flatMap((group) => matchingPart(group, words))
    this.#last.set(groups, { words, found })
    return found
  }
}

/** The title of a group counts for its items, so the name of a device finds its tabs. */
function matchingPart({ title, items, device }: Group, words: string[]): Group[] {
  const titleWords = wordsIn(typeof title === 'string' ? fold(title) : '', words)
  const others = words.filter((word) => !titleWords.has(word))
  const found = others.reduce((left, word) => left.filter(({ text }) => text.includes(word)), items)
  return found.length > 0 || (device && others.length === 0) ? [{ title, items: found, device }] : []
}

function wordsIn(title: string, words: string[]): Set<string> {
  return new Set(words.filter((word) => title.split(word, 2).length > 1))
}

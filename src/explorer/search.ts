import { fold, type Group } from './meaning.ts'

/** The words of what somebody types. All of them have to be found, in any order, whatever their capitals and accents. */
export function wordsOf(typed: string): string[] {
  return fold(typed).split(/\s+/).filter(Boolean)
}

/** Looks through groups for words. What is typed on to is looked for only among what its beginning has found. */
export class Search {
  readonly #last = new WeakMap<Group[], { words: string[]; found: Group[] }>()

  /** What has all of these words; everything where there are none. */
  matching(groups: Group[], words: string[]): Group[] {
    if (words.length === 0) return groups
    const last = this.#last.get(groups)
    const isNarrower = last?.words.every((word) => words.some((longer) => longer.includes(word)))
    const found = (isNarrower ? last!.found : groups).flatMap((group) => matchingPart(group, words))
    this.#last.set(groups, { words, found })
    return found
  }
}

/** What is in a group by its title, such as the tabs of a device, has the words of that. */
function matchingPart({ title, items, device }: Group, words: string[]): Group[] {
  const titleWords = wordsIn(typeof title === 'string' ? fold(title) : '', words)
  const others = words.filter((word) => !titleWords.has(word))
  const found = others.reduce((left, word) => left.filter(({ text }) => text.includes(word)), items)
  return found.length > 0 || (device && others.length === 0) ? [{ title, items: found, device }] : []
}

function wordsIn(title: string, words: string[]): Set<string> {
  return new Set(words.filter((word) => title.split(word, 2).length > 1))
}

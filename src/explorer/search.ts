import { folded } from '../client/spelling.ts'
import type { Group } from './items.ts'

interface Result {
  words: string[]
  found: Group[]
}

/** Searches groups. A longer query only searches the results of the shorter one, to which Backspace returns. */
export class Search {
  /** The results for each list of groups, each from the one before. */
  readonly #results = new WeakMap<Group[], Result[]>()

  /** The items that contain all words; everything without words. */
  matching(groups: Group[], words: string[]): Group[] {
    const results = this.#results.get(groups) ?? [{ words: [], found: groups }]
    this.#results.set(groups, results)
    while (!isNarrower(words, results.at(-1)!.words)) results.pop()
    const last = results.at(-1)!
    if (words.join(' ') === last.words.join(' ')) return last.found
    const found = last.found.flatMap((group) => matchingPart(group, words))
    results.push({ words, found })
    return found
  }
}

function isNarrower(words: string[], others: string[]): boolean {
  return others.every((other) => words.some((word) => word.includes(other)))
}

/** The title of a group counts for its items, so the name of a device finds its tabs. */
function matchingPart({ title, items, device }: Group, words: string[]): Group[] {
  const titleWords = wordsIn(typeof title === 'string' ? folded(title) : '', words)
  const others = words.filter((word) => !titleWords.has(word))
  const found = others.reduce((left, word) => left.filter(({ text }) => text.includes(word)), items)
  return found.length > 0 || (device && others.length === 0) ? [{ title, items: found, device }] : []
}

function wordsIn(title: string, words: string[]): Set<string> {
  return new Set(words.filter((word) => title.split(word, 2).length > 1))
}

/** The search in the guides, in the browser: lists the sections that contain all words. */
import { folded, wordsOf } from '../client/spelling.ts'

/** A section of a page. */
export interface SearchSection {
  /** The URL of its page, relative to the folder of the guides. */
  page: string
  title: string
  id: string
  heading: string
  text: string
}

/** Set by the script with the sections. */
interface LoadedIndex {
  searchSections: SearchSection[]
}

const form = document.querySelector('form')!
const input = form.querySelector('input')!
const status = form.querySelector('p')!
const list = form.querySelector('ul')!
const folder = form.dataset.guides!
const shownResults = 12

form.hidden = false
form.addEventListener('submit', (event) => {
  event.preventDefault()
  list.querySelector('a')?.click()
})
input.addEventListener('input', () => void search())
input.addEventListener('keydown', ({ key }) => {
  if (key === 'Escape') input.value = ''
  if (key === 'Escape') void search()
})

let index: Promise<SearchSection[]> | null = null

/** Loads the sections as a script, because pages opened as files can't use `fetch`. */
function loadIndex(): Promise<SearchSection[]> {
  const script = document.createElement('script')
  script.src = `${folder}search.js`
  document.head.append(script)
  return new Promise((resolve, reject) => {
    script.addEventListener('load', () => resolve((globalThis as unknown as LoadedIndex).searchSections))
    script.addEventListener('error', reject)
  })
}

async function search(): Promise<void> {
  const words = wordsOf(input.value)
  try {
    index ??= loadIndex()
    const found = words.length > 0 ? find(await index, words) : []
    // The user may have typed more meanwhile.
    if (words.join() !== wordsOf(input.value).join()) return
    status.textContent = words.length === 0 ? '' : `${found.length} of ${(await index).length} sections`
    list.replaceChildren(...found.slice(0, shownResults).map((section) => draw(section, words)))
  } catch {
    index = null
    status.textContent = 'The search cannot be loaded'
  }
}

/** The sections that contain all words; those with most words in the heading come first, and of these, those that begin with one. */
function find(sections: SearchSection[], words: string[]): SearchSection[] {
  const scored = sections.flatMap((section) => {
    const heading = folded(`${section.title} ${section.heading}`)
    const text = `${heading} ${folded(section.text)}`
    if (!words.every((word) => text.includes(word))) return []
    const beginsWithOne = words.some((word) => folded(section.heading).startsWith(word))
    return [
      { section, score: 2 * words.filter((word) => heading.includes(word)).length + Number(beginsWithOne) },
    ]
  })
  return scored.toSorted((left, right) => right.score - left.score).map(({ section }) => section)
}

function draw({ page, title, id, heading, text }: SearchSection, words: string[]): HTMLElement {
  const at = Math.max(0, folded(text).indexOf(words[0]!) - 40)
  const link = document.createElement('a')
  link.href = `${folder}${page}#${id}`
  link.textContent = heading === title ? title : `${title}: ${heading}`
  const excerpt = document.createElement('span')
  excerpt.textContent = `${at > 0 ? '…' : ''}${text.slice(at, at + 120)}`
  const item = document.createElement('li')
  item.append(link, excerpt)
  return item
}

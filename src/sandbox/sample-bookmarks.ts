import type { SampleRandom } from './sample-random.ts'

/** A record before encryption, with what the server may see of it. */
export interface ClearRecord {
  id: string
  /** What is encrypted besides the id. None of the times in it may be later than the upload. */
  content: (uploadedAtMs: number) => Record<string, unknown>
  sortindex?: number
}

/** A page that the sample user visited or marked. */
export interface SamplePage {
  title: string
  url: string
}

interface Folder {
  id: string
  title: string
  children: string[]
}

const dayMs = 86_400_000

const roots = [
  { id: 'menu', title: 'Bookmarks Menu', folders: 6 },
  { id: 'toolbar', title: 'Bookmarks Toolbar', folders: 4 },
  { id: 'unfiled', title: 'Other Bookmarks', folders: 2 },
  { id: 'mobile', title: 'Mobile Bookmarks', folders: 0 },
]

// What Firefox gives folders, so that they arrive before what is in them.
const folderSortindex = 1_000_000

/**
 * A tree of so many records: folders in the four roots, each child naming its parent and the reverse, separators, and
 * bookmarks. Tags belong to the page, so that all bookmarks of one address have the same.
 */
export function sampleBookmarks(random: SampleRandom, count: number): ClearRecord[] {
  const records: ClearRecord[] = []
  const folders: Folder[] = []
  const tagsOf = new Map<string, string[]>()
  for (const { id, title, folders: size } of roots) {
    const top = { id, title, children: [] as string[] }
    folders.push(top)
    records.push(folderRecord(top, { id: 'places', title: '' }, 400 * dayMs))
    for (let index = 0; index < size; index += 1) {
      const folder = { id: random.id(), title: folderTitle(random), children: [] }
      // Every third folder lies in the one made before it.
      const parent = index % 3 === 2 ? (folders.at(-1) ?? top) : top
      parent.children.push(folder.id)
      folders.push(folder)
      records.push(folderRecord(folder, parent, random.below(400) * dayMs))
    }
  }
  while (records.length < count) {
    const parent = random.pick(folders)
    const isSeparator = parent.children.length > 2 && random.below(25) === 0
    const record = isSeparator ? separatorRecord(random, parent) : bookmarkRecord(random, parent, tagsOf)
    parent.children.push(record.id)
    records.push(record)
  }
  return records
}

/** A page about some subject; the same subjects come back, as they do in real browsing. */
export function samplePage(random: SampleRandom): SamplePage {
  return random.pick(sites)(random.pick(subjects), random)
}

function folderRecord(folder: Folder, parent: Pick<Folder, 'id' | 'title'>, ageMs: number): ClearRecord {
  const { id, title, children } = folder
  const place = { parentid: parent.id, parentName: parent.title }
  const content = (uploadedAtMs: number) => {
    return { type: 'folder', title, ...place, dateAdded: uploadedAtMs - ageMs, children }
  }
  return { id, content, sortindex: folderSortindex }
}

function separatorRecord(random: SampleRandom, parent: Folder): ClearRecord {
  const place = { parentid: parent.id, parentName: parent.title, pos: parent.children.length }
  const ageMs = random.below(900) * dayMs
  const content = (uploadedAtMs: number) => {
    return { type: 'separator', ...place, dateAdded: uploadedAtMs - ageMs }
  }
  return { id: random.id(), content, sortindex: 150 }
}

function bookmarkRecord(random: SampleRandom, parent: Folder, tagsOf: Map<string, string[]>): ClearRecord {
  const { title, url: bmkUri } = samplePage(random)
  const tags = tagsOf.get(bmkUri) ?? sampleTags(random)
  tagsOf.set(bmkUri, tags)
  const ageMs = random.below(900) * dayMs
  const place = { parentid: parent.id, parentName: parent.title }
  const content = (uploadedAtMs: number) => {
    const dateAdded = uploadedAtMs - ageMs
    return { type: 'bookmark', title, bmkUri, ...place, dateAdded, tags, keyword: null, loadInSidebar: false }
  }
  return { id: random.id(), content, sortindex: random.below(2000) + 150 }
}

function sampleTags(random: SampleRandom): string[] {
  const names = ['paper', 'todo', 'video', 'été', '料理']
  return names.filter(() => random.below(12) === 0)
}

function folderTitle(random: SampleRandom): string {
  return `${random.pick(['Reading', 'Weekend', 'Work', 'Recipes', 'Später', '資料'])}: ${random.pick(subjects)}`
}

const subjects = [
  ['Lighthouse', 'Tidal range', 'Sourdough', 'Beekeeping', 'Alpine swift', 'Bicycle gearing', 'Sundial'],
  [
    'Letterpress',
    'Knot theory',
    'Basalt',
    'Fresnel lens',
    'Slide rule',
    'Hedgehog',
    'Peat bog',
    'Harpsichord',
  ],
  [
    'Public-key cryptography',
    'Merkle tree',
    'Vector clock',
    'Hash function',
    'B-tree',
    'Bloom filter',
    'Unicode',
  ],
  [
    'Kayaking',
    'Rye bread',
    'Orienteering',
    'Cloud atlas',
    'Weaving',
    'Steam locomotive',
    'Barometer',
    'Origami',
  ],
].flat()

const sites: ((subject: string, random: SampleRandom) => SamplePage)[] = [
  (subject) => ({
    title: `${subject} - Wikipedia`,
    url: `https://en.wikipedia.org/wiki/${subject.replaceAll(' ', '_')}`,
  }),
  (subject, random) => ({
    title: `${subject} explained in ${random.below(9) + 2} pictures 📷`,
    url: `https://notes.example.org/${1998 + random.below(28)}/${slug(subject)}`,
  }),
  (subject, random) => {
    const number = random.below(90_000) + 10_000
    return {
      title: `Question ${number}: ${subject} for beginners`,
      url: `https://forum.example.net/t/${slug(subject)}/${number}`,
    }
  },
  (subject, random) => {
    const page = random.below(40) + 1
    return {
      title: `${subject} — catalogue, page ${page}`,
      url: `https://shop.example.com/search?q=${encodeURIComponent(subject)}&page=${page}`,
    }
  },
  (subject, random) => {
    const [language, about] = random.pick(languages)
    return {
      title: `${about} ${subject}`,
      url: `https://${language}.example.org/${slug(subject)}#${random.below(20) + 1}`,
    }
  },
]

const languages = [
  ['de', 'Über'],
  ['fr', 'À propos de'],
  ['ja', 'について:'],
  ['ar', 'حول'],
  ['el', 'Σχετικά με'],
] as const

function slug(subject: string): string {
  return subject.toLowerCase().replaceAll(/[^a-z]+/g, '-')
}

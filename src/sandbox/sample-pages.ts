import type { SampleRandom } from './sample-random.ts'

/** A page that the sample user visited or bookmarked. */
export interface SamplePage {
  title: string
  url: string
}

/** Generates a page about a topic. Some pages repeat, as in real browsing. */
export type PageMaker = (random: SampleRandom) => SamplePage

/** Generates `count` different pages. Those in other languages come first. */
export function samplePages(random: SampleRandom, count: number): SamplePage[] {
  const pages = new Map<string, SamplePage>()
  const foreign = Math.floor(count / foreignShare)
  while (pages.size < count) {
    const page = random.pick(pages.size < foreign ? [foreignPage] : everything)(random)
    if (!pages.has(page.url)) pages.set(page.url, page)
  }
  return [...pages.values()]
}

const foreignShare = 12

/** The four top folders, their subfolders, and the topics of the bookmarks in each. */
export function sampleFolders(): { id: string; title: string; folders: [string, PageMaker[]][] }[] {
  const toolbar: [string, PageMaker[]][] = [
    ['News', [frontPage, about(['Journalism', 'Local history', 'Weather forecast', 'Tidal range'])]],
    ['Recipes', [about(kitchen)]],
    ['Bread', [about(['Sourdough', 'Rye bread', 'Focaccia', 'Bagel', 'Brioche', 'Flatbread', 'Yeast'])]],
    ['Programming', [about(computing)]],
  ]
  const menu: [string, PageMaker[]][] = [
    ['Work', [about(['Typography', 'Letterpress', 'Unicode', 'Public speaking', 'Time management'])]],
    ['House and garden', [about(garden)]],
    ['Beekeeping', [about(['Beekeeping', 'Honey bee', 'Bumblebee', 'Clover', 'Lavender', 'Linden'])]],
    ['Reading list', [about(science)]],
    ['Travel', [about(outdoors)]],
    ['Trains', [about(['Steam locomotive', 'Night train', 'Narrow gauge', 'Cable car', 'Funicular'])]],
  ]
  const others: [string, PageMaker[]][] = [
    ['Später', [foreignPage]],
    ['資料', [foreignPage]],
  ]
  return [
    { id: 'menu', title: 'Bookmarks Menu', folders: menu },
    { id: 'toolbar', title: 'Bookmarks Toolbar', folders: toolbar },
    { id: 'unfiled', title: 'Other Bookmarks', folders: others },
    { id: 'mobile', title: 'Mobile Bookmarks', folders: [] },
  ]
}

const kitchen = ['Sourdough', 'Rye bread', 'Marmalade', 'Dumpling', 'Lentil soup', 'Ratatouille', 'Pickling']
const computing = [
  'Public-key cryptography',
  'Merkle tree',
  'Vector clock',
  'Hash function',
  'B-tree',
  'Bloom filter',
  'Unicode',
]
const garden = ['Compost', 'Hedgehog', 'Alpine swift', 'Nest box', 'Apple tree', 'Rain barrel', 'Tomato']
const science = ['Knot theory', 'Fresnel lens', 'Slide rule', 'Basalt', 'Peat bog', 'Barometer', 'Sundial']
const outdoors = [
  'Lighthouse',
  'Kayaking',
  'Orienteering',
  'Bicycle gearing',
  'Tent',
  'Mountain hut',
  'Ferry',
]

const fronts: SamplePage[] = [
  { title: 'BBC News - Home', url: 'https://www.bbc.co.uk/news' },
  { title: 'Wikipedia, the free encyclopedia', url: 'https://en.wikipedia.org/wiki/Main_Page' },
  { title: 'Hacker News', url: 'https://news.ycombinator.com/' },
  { title: 'OpenStreetMap', url: 'https://www.openstreetmap.org/' },
  { title: 'Internet Archive', url: 'https://archive.org/' },
  { title: 'Project Gutenberg', url: 'https://www.gutenberg.org/' },
  { title: 'MDN Web Docs', url: 'https://developer.mozilla.org/' },
  { title: 'LWN.net', url: 'https://lwn.net/' },
]

const frontPage: PageMaker = (random) => random.pick(fronts)

function about(subjects: readonly string[]): PageMaker {
  return (random) => random.pick(kinds)(random.pick(subjects), random)
}

const kinds: ((subject: string, random: SampleRandom) => SamplePage)[] = [
  (subject) => ({
    title: `${subject} - Wikipedia`,
    url: `https://en.wikipedia.org/wiki/${subject.replaceAll(' ', '_')}`,
  }),
  (subject, random) => {
    const year = 1998 + random.below(28)
    const title = random.pick(['A short history of', 'In praise of', 'Notes on', 'The art of'])
    return {
      title: `${title} ${inSentence(subject)} · The Almanac`,
      url: `https://almanac.example.org/${year}/${slug(title)}-${slug(subject)}`,
    }
  },
  (subject, random) => {
    const number = random.below(90_000) + 10_000
    const question = random.pick(['How do I begin with', 'What should I read about', 'Who else likes'])
    return {
      title: `${question} ${inSentence(subject)}? - Everyday Forum`,
      url: `https://forum.example.net/t/${slug(question)}-${slug(subject)}/${number}`,
    }
  },
  (subject, random) => {
    const page = random.below(40) + 1
    return {
      title: `${subject}: books and tools, page ${page} | Corner Shop`,
      url: `https://shop.example.com/search?q=${encodeURIComponent(subject)}&page=${page}`,
    }
  },
]

const everything = [about([...kitchen, ...computing, ...garden, ...science, ...outdoors]), frontPage]

/** The topics of the bookmarks in the top folders themselves. */
export const anything: readonly PageMaker[] = everything

const languages = [
  ['de', 'Über'],
  ['fr', 'À propos de'],
  ['ja', 'について:'],
  ['ar', 'حول'],
  ['el', 'Σχετικά με'],
] as const

const foreignPage: PageMaker = (random) => {
  const [language, title] = random.pick(languages)
  const subject = random.pick([...kitchen, ...science])
  return {
    title: `${title} ${subject}`,
    url: `https://${language}.example.org/${slug(subject)}#${random.below(1000) + 1}`,
  }
}

function inSentence(subject: string): string {
  return subject.startsWith('B-') ? subject : subject.toLowerCase()
}

function slug(text: string): string {
  return text.toLowerCase().replaceAll(/[^a-z]+/g, '-')
}

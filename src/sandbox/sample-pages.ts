import type { SampleRandom } from './sample-random.ts'

/** A page that the sample user visited or marked. */
export interface SamplePage {
  title: string
  url: string
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
    title: `${subject} explained in ${random.below(9) + 2} pictures`,
    url: `https://notes.example.org/${1998 + random.below(28)}/${slug(subject)}`,
  }),
  (subject, random) => ({
    title: `Question ${random.below(90_000) + 10_000}: ${subject} for beginners`,
    url: `https://forum.example.net/t/${slug(subject)}/${random.below(90_000) + 10_000}`,
  }),
  (subject, random) => ({
    title: `${subject} — catalogue, page ${random.below(40) + 1}`,
    url: `https://shop.example.com/search?q=${encodeURIComponent(subject)}&page=${random.below(40) + 1}`,
  }),
  (subject, random) => ({
    title: `${random.pick(['Über', 'À propos de', 'Sobre', 'について'])} ${subject}`,
    url: `https://${random.pick(['de', 'fr', 'es', 'ja'])}.example.org/${slug(subject)}#${random.below(20) + 1}`,
  }),
]

/** A page about some subject; the same subjects come back, as they do in real browsing. */
export function samplePage(random: SampleRandom): SamplePage {
  return random.pick(sites)(random.pick(subjects), random)
}

/** The name of a folder of bookmarks. */
export function sampleFolderTitle(random: SampleRandom): string {
  return `${random.pick(['Reading', 'Weekend', 'Work', 'Recipes', 'Later', 'Reference'])}: ${random.pick(subjects)}`
}

function slug(subject: string): string {
  return subject.toLowerCase().replaceAll(/[^a-z]+/g, '-')
}

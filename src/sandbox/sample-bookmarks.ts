import { sampleFolderTitle, samplePage } from './sample-pages.ts'
import type { SampleRandom } from './sample-random.ts'

/** A record before encryption, with what the server may see of it. */
export interface ClearRecord {
  clear: { id: string } & Record<string, unknown>
  sortindex?: number
}

interface Folder {
  id: string
  title: string
  children: string[]
}

const roots = [
  { id: 'menu', title: 'Bookmarks Menu', folders: 6 },
  { id: 'toolbar', title: 'Bookmarks Toolbar', folders: 4 },
  { id: 'unfiled', title: 'Other Bookmarks', folders: 2 },
  { id: 'mobile', title: 'Mobile Bookmarks', folders: 0 },
]

// What Firefox gives folders, so that they arrive before what is in them.
const folderSortindex = 1_000_000

/** A tree of about so many bookmarks: folders in the four roots, each child naming its parent and the reverse. */
export function sampleBookmarks(random: SampleRandom, count: number, nowMs: number): ClearRecord[] {
  const records: ClearRecord[] = []
  const folders: Folder[] = []
  for (const root of roots) {
    const top = { id: root.id, title: root.title, children: [] as string[] }
    folders.push(top)
    records.push(folderRecord(top, { id: 'places', title: '' }, nowMs))
    for (let index = 0; index < root.folders; index += 1) {
      const folder = { id: random.id(), title: sampleFolderTitle(random), children: [] }
      // Every third folder lies in the one made before it.
      const parent = index % 3 === 2 ? (folders.at(-1) ?? top) : top
      parent.children.push(folder.id)
      folders.push(folder)
      records.push(folderRecord(folder, parent, nowMs - random.below(400) * 86_400_000))
    }
  }
  while (records.length < count) {
    const parent = random.pick(folders)
    const record = bookmarkRecord(random, parent, nowMs - random.below(900) * 86_400_000)
    parent.children.push(record.clear.id)
    records.push(record)
  }
  return records
}

function folderRecord(folder: Folder, parent: Pick<Folder, 'id' | 'title'>, dateAdded: number): ClearRecord {
  const { id, title, children } = folder
  const clear = {
    id,
    type: 'folder',
    title,
    parentid: parent.id,
    parentName: parent.title,
    dateAdded,
    children,
  }
  return { clear, sortindex: folderSortindex }
}

function bookmarkRecord(random: SampleRandom, parent: Folder, dateAdded: number): ClearRecord {
  const { title, url: bmkUri } = samplePage(random)
  const id = random.id()
  const tags = random.below(5) === 0 ? [random.pick(['paper', 'todo', 'video'])] : []
  const about = { tags, keyword: null, loadInSidebar: false, description: null }
  const place = { parentid: parent.id, parentName: parent.title, dateAdded }
  const clear = { id, type: 'bookmark', title, bmkUri, ...place, ...about }
  return { clear, sortindex: random.below(2000) + 150 }
}

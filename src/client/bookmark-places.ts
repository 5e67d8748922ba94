/** The ids of the root folders with the titles that Firefox shows. */
export const rootTitles: ReadonlyMap<string, string> = new Map([
  ['toolbar', 'Bookmarks Toolbar'],
  ['menu', 'Bookmarks Menu'],
  ['unfiled', 'Other Bookmarks'],
  ['mobile', 'Mobile Bookmarks'],
])

/** The parent of the roots. It has no record. */
export const topId = 'places'

/** Where Firefox puts what has no folder. */
export const strayFolder = 'unfiled'

/** Where each item is. */
export interface Places {
  /** The id of the folder of each item; `places` for the roots. */
  parents: ReadonlyMap<string, string>
  /** The ids in each folder, in order; also of records that are missing or unreadable. */
  contents: ReadonlyMap<string, string[]>
}

/** What decides where an item is. */
interface Reader<Item> {
  isFolder(item: Item): boolean
  /** The ids that a folder lists. */
  childIds(item: Item): readonly string[]
  /** The id of the folder that an item names. */
  parentId(item: Item): string
  /** Whether an id is that of a folder that can't be decrypted. What names it stays there, below no root. @default never */
  isUnreadable?(id: string): boolean
}

/**
 * Decides where each bookmark, folder and separator is, once: in the folder that it names if that folder lists it, else in the first folder
 * that lists it, else at the end of the folder that it names, else at the end of Other Bookmarks. Takes linear time, and any ids.
 */
export function placesOf<Item>(items: ReadonlyMap<string, Item>, reader: Reader<Item>): Places {
  const parents = listedParents(items, reader)
  const contents = new Map<string, string[]>()
  for (const [id, item] of items) {
    if (!reader.isFolder(item)) continue
    const listed = reader.childIds(item).filter((child) => parents.get(child) === id)
    const unique = new Set(listed)
    contents.set(id, unique.size === listed.length ? listed : [...unique])
  }
  const place = (id: string, folder: string) => {
    parents.set(id, folder)
    contents.get(folder)?.push(id)
  }
  for (const [id, item] of items) {
    if (rootTitles.has(id)) parents.set(id, topId)
    if (parents.has(id)) continue
    const named = reader.parentId(item)
    const exists = (contents.has(named) && named !== id) || reader.isUnreadable?.(named) === true
    place(id, exists ? named : strayFolder)
  }
  for (const id of cycles(contents, parents)) {
    const former = parents.get(id)!
    contents.set(
      former,
      contents.get(former)!.filter((child) => child !== id),
    )
    place(id, strayFolder)
  }
  return { parents, contents }
}

/** The folder of each listed id: the one that it names, else the first that lists it. */
function listedParents<Item>(items: ReadonlyMap<string, Item>, reader: Reader<Item>): Map<string, string> {
  const parents = new Map<string, string>()
  for (const [folder, item] of items) {
    if (!reader.isFolder(item)) continue
    for (const id of reader.childIds(item)) {
      if (id === folder || id === topId || rootTitles.has(id)) continue
      const child = items.get(id)
      if (!parents.has(id) || (child && reader.parentId(child) === folder)) parents.set(id, folder)
    }
  }
  return parents
}

/** One folder of each cycle: folders that contain each other are in no root. */
function cycles(folders: ReadonlyMap<string, unknown>, parents: ReadonlyMap<string, string>): string[] {
  const isRooted = new Set(rootTitles.keys())
  const found: string[] = []
  for (const folder of folders.keys()) {
    const passed = new Set<string>()
    let above = folder
    while (!isRooted.has(above) && !passed.has(above) && folders.has(above)) {
      passed.add(above)
      above = parents.get(above)!
    }
    if (passed.has(above)) found.push(above)
    for (const each of passed) isRooted.add(each)
  }
  return found
}

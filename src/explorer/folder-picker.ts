import { folded } from '../client/spelling.ts'
import { idOf } from './bookmark-edits.ts'
import { button, make } from './elements.ts'
import type { BookmarkItem } from './items.ts'

// A longer list helps no one; typing finds the others.
const maxFolders = 200

/** Asks for a folder, with a search; null if the user cancels. */
export async function askForFolder(title: string, folders: BookmarkItem[]): Promise<BookmarkItem | null> {
  let chosen: BookmarkItem | null = null
  await openDialog(title, (close) => {
    const search = make('input', {
      type: 'search',
      'aria-label': 'Find a folder',
      placeholder: 'Find a folder',
      autofocus: true,
      oninput: () => fill(),
      onkeydown: (event) => onKey(event as KeyboardEvent),
    })
    const list = make('ul', { class: 'choices-list', 'aria-label': 'Folders' })
    const choose = (folder: BookmarkItem) => {
      chosen = folder
      close()
    }
    function fill(): void {
      const word = folded(search.value.trim())
      const found = folders.filter(({ title: name, path }) => folded(`${path} / ${name}`).includes(word))
      list.replaceChildren(
        ...found
          .slice(0, maxFolders)
          .map((folder) =>
            make(
              'li',
              {},
              button(
                { 'data-id': idOf(folder), onclick: () => choose(folder) },
                make('span', { dir: 'auto' }, folder.title),
                make('small', { dir: 'auto' }, folder.path),
              ),
            ),
          ),
        ...(found.length > maxFolders ? [make('li', {}, `and ${found.length - maxFolders} more`)] : []),
        ...(found.length === 0 ? [make('li', {}, 'No folder has this name')] : []),
      )
    }
    function onKey(event: KeyboardEvent): void {
      if (event.key !== 'Enter') return
      event.preventDefault()
      list.querySelector<HTMLButtonElement>('button')?.click()
    }
    list.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
      if (step === undefined) return
      event.preventDefault()
      const buttons = [...list.querySelectorAll('button')]
      const next = buttons[buttons.indexOf(event.target as HTMLButtonElement) + step]
      ;(next ?? search).focus()
    })
    search.addEventListener('keydown', ({ key }) => {
      if (key === 'ArrowDown') list.querySelector('button')?.focus()
    })
    fill()
    return [
      search,
      list,
      make('div', { class: 'choices' }, button({ class: 'quiet', onclick: close }, 'Cancel')),
    ]
  })
  return chosen
}

/** Opens a dialog until it is closed, and gives the focus back. */
function openDialog(title: string, fill: (close: () => void) => HTMLElement[]): Promise<void> {
  const before = document.activeElement
  const { promise, resolve } = Promise.withResolvers<void>()
  const heading = make('h2', { id: 'asked', dir: 'auto' }, title)
  const dialog = make('dialog', { class: 'asking', 'aria-labelledby': 'asked' }, heading)
  dialog.append(...fill(() => dialog.close()))
  dialog.addEventListener('close', () => {
    dialog.remove()
    if (before instanceof HTMLElement && before.isConnected) before.focus()
    resolve()
  })
  document.body.append(dialog)
  dialog.showModal()
  return promise
}

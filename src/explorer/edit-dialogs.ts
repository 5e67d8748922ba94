import { folded } from '../client/spelling.ts'
import { idOf } from './bookmark-edits.ts'
import { button, make } from './elements.ts'
import type { BookmarkItem } from './items.ts'

/** A field of a form. */
export interface Field {
  name: string
  label: string
  value: string
  type?: 'text' | 'url' | 'password'
  hint?: string
}

/** Saves what was typed; resolves to why not all of it was saved, or null. */
export type SaveFields = (values: Record<string, string>) => Promise<string | null>

/** A form on display. */
export interface FieldForm {
  element: HTMLFormElement
  /** Shows other values, except in fields where something was typed. */
  update(fields: Field[]): void
  focus(): void
}

/** A form whose fields keep what was typed until it was saved. Calls `onSaved` then. */
export function fieldForm(
  fields: Field[],
  label: string,
  save: SaveFields,
  onSaved: () => void,
  ...more: HTMLElement[]
): FieldForm {
  const trouble = make('p', { class: 'trouble', role: 'alert', hidden: true })
  const submit = make('button', { class: 'primary' }, label)
  const inputs = fields.map(({ name, value, type = 'text' }) => {
    const input = make('input', { name, type, dir: 'auto', spellcheck: 'false', autocomplete: 'off' })
    input.value = value
    return input
  })
  const shown = fields.map(({ value }) => value)
  const rows = fields.map(({ label: text, hint }, index) =>
    make('label', {}, make('span', {}, text, hint !== undefined && make('small', {}, hint)), inputs[index]!),
  )
  const element = make(
    'form',
    { class: 'fields', onsubmit: (event) => void onSubmit(event) },
    ...rows,
    trouble,
    make('div', { class: 'choices' }, submit, ...more),
  )

  async function onSubmit(event: Event): Promise<void> {
    event.preventDefault()
    if (submit.disabled) return
    submit.disabled = true
    trouble.hidden = true
    const failure = await save(Object.fromEntries(inputs.map(({ name, value }) => [name, value])))
    submit.disabled = false
    if (failure === null) return onSaved()
    trouble.textContent = failure
    trouble.hidden = false
    // The button had the focus, and lost it while it was disabled.
    if (!element.contains(document.activeElement)) inputs[0]?.focus()
  }

  function update(now: Field[]): void {
    for (const [index, input] of inputs.entries()) {
      const { value } = now.find(({ name }) => name === input.name) ?? fields[index]!
      if (input.value === shown[index]) input.value = value
      shown[index] = value
    }
  }

  return { element, update, focus: () => inputs[0]?.focus() }
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

/** Asks for the fields of a new bookmark or folder, until it was saved or the user cancels. */
export async function askForItem(
  kind: 'bookmark' | 'folder',
  save: (fields: { title: string; address?: string }) => Promise<string | null>,
): Promise<void> {
  const fields: Field[] = [
    { name: 'title', label: 'Title', value: '' },
    ...(kind === 'bookmark' ? [{ name: 'address', label: 'Address', value: '' }] : []),
  ]
  await openDialog(kind === 'bookmark' ? 'New bookmark' : 'New folder', (close) => [
    fieldForm(
      fields,
      'Add',
      ({ title = '', address }) => save({ title, ...(address !== undefined && { address: address.trim() }) }),
      close,
      button({ class: 'quiet', onclick: close }, 'Cancel'),
    ).element,
  ])
}

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

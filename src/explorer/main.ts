/**
 * The explorer shows users their own data: it reads encrypted records from the bridge that serves it, and decrypts them in the tab.
 *
 * `state.ts` is what the page knows and shows. `connecting.ts` connects it with `form.ts`, `page.ts` draws it, and `record-dialog.ts` draws a
 * record over it; `tab.ts` is the address and the tab's storage. `opened-account.ts` reads and decrypts with `client/`, `record-items.ts` turns
 * records into what lists show, `contents.ts` searches and sorts them, `views.ts`, `drawing.ts` and `details.ts` draw them, `editor.ts` changes
 * them, and `downloads.ts` saves them.
 */
import { Connecting } from './connecting.ts'
import { offerDownloads } from './downloads.ts'
import { byId, copy, isTyping } from './elements.ts'
import type { DrawnTree } from './items.ts'
import { takeCode } from './own-page.ts'
import { Page } from './page.ts'
import { initialState } from './state.ts'
import { recall } from './tab.ts'
import { onChoice } from './tools.ts'

const state = initialState()
const page: Page = new Page(state, {
  connect: () => connecting.connect(),
  ask: (trouble) => connecting.ask(trouble),
})
const connecting = new Connecting(state, page)
const { editor } = page

/** Connects with the code in the address, or shows what the address names. */
function follow(): void {
  const code = takeCode()
  if (code === null) page.follow()
  else void connecting.openLink(code)
}

/** Runs an action on the selected or focused rows of the tree. */
function onTree(act: (drawn: DrawnTree) => unknown): () => void {
  return () => {
    if (state.drawnTree !== null) void act(state.drawnTree)
  }
}

byId('credentials').addEventListener('submit', (event) => {
  event.preventDefault()
  void connecting.connect()
})
for (const [id, act] of Object.entries({
  'copy-recipe': () => copy(byId('recipe').textContent ?? ''),
  leave: () => connecting.leave(),
  back: () => page.follow(),
  refresh: () => connecting.connect(),
  collapse: () => page.collapse(),
  'new-bookmark': onTree((drawn) => editor.create('bookmark', drawn.place())),
  'new-folder': onTree((drawn) => editor.create('folder', drawn.place())),
  'new-separator': onTree((drawn) => editor.create('separator', drawn.place())),
  move: onTree((drawn) => editor.moveToFolder(drawn.chosen(), drawn.all())),
  delete: onTree((drawn) => editor.remove(drawn.chosen())),
  undo: () => editor.undo(),
  'close-troubles': () => {
    state.troubles = []
    page.draw()
  },
  'close-details': () => byId<HTMLDialogElement>('details').close(),
})) {
  byId(id).addEventListener('click', act)
}
// Browsers leave a control with the focus where it is if only a part of it is cut off. A mouse press must not move what it is on.
for (const bar of [byId('nav'), byId('edit-tools')]) {
  bar.addEventListener('focusin', ({ target }) => {
    const { offsetLeft, offsetWidth } = target as HTMLElement
    const left = offsetLeft - (bar.clientWidth - offsetWidth) / 2
    if ((target as HTMLElement).matches(':focus-visible')) bar.scrollTo({ left })
  })
}
onChoice(() => page.drawSoon())
byId('details').addEventListener('close', () => page.record.leave())
byId('details').addEventListener('click', ({ target, currentTarget }) => {
  if (target === currentTarget) (target as HTMLDialogElement).close()
})
addEventListener('popstate', follow)
document.addEventListener('click', (event) => {
  const link = (event.target as Element).closest('a[href^="#/"]')
  // With a modifier key, the browser opens a new tab.
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  page.go(link.getAttribute('href')!)
})
document.addEventListener('keydown', (event) => {
  if (event.key.toLowerCase() !== 'z' || !(event.ctrlKey || event.metaKey) || event.shiftKey) return
  if (isTyping(event) || byId('explorer').hidden || state.editing === null) return
  event.preventDefault()
  void editor.undo()
})
addEventListener('beforeunload', (event) => {
  if (state.editing?.isSaving === true || state.draft?.form.isTyped() === true) event.preventDefault()
})
state.tree.onSelect = () => page.drawTools()

offerDownloads(() => state.loaded)
const code = takeCode()
const kept = recall()
if (code !== null) void connecting.openLink(code)
else connecting.open(kept, kept.syncKey !== undefined)

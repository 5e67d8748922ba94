import { byId, make } from './elements.ts'
import type { Editing } from './editing.ts'

/** Shows whether something is being saved, what the last change was, with a button to take it back, and what could not be changed. */
export function drawChanges(editing: Editing | null, troubles: readonly string[]): void {
  const isSaving = editing?.isSaving ?? false
  const undoable = editing?.undoable ?? null
  const text = isSaving ? 'Saving …' : (undoable ?? '')
  const undo = byId('undo')
  const isFocused = document.activeElement === undo
  // A live region is read out when its text changes.
  if (byId('changed').textContent !== text) byId('changed').textContent = text
  undo.hidden = isSaving || undoable === null
  byId('troubles').replaceChildren(...troubles.map((trouble) => make('li', { dir: 'auto' }, trouble)))
  byId('trouble-box').hidden = troubles.length === 0
  byId('changes').hidden = text === '' && troubles.length === 0
  if (isFocused && undo.hidden) byId('title').focus({ preventScroll: true })
}

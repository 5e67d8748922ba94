import { button, make } from './elements.ts'

/** A field of a form. */
export interface Field {
  name: string
  label: string
  value: string
  type?: 'text' | 'password'
  hint?: string
}

/** Saves the fields in which something else was typed; resolves to why not all of it was saved, or null. */
type SaveFields = (typed: Record<string, string>) => Promise<string | null>

/** A form on display. */
export interface FieldForm {
  element: HTMLFormElement
  /** Shows other values, and beside a field where something was typed, what the value is now. */
  update(fields: Field[]): void
  /** Whether something was typed that is not saved. */
  isTyped(): boolean
  focus(): void
}

/** What a form is for, and what happens at its end. */
export interface FormOptions {
  /** Its name for screen readers. */
  name: string
  /** The label of the button that saves. */
  submit: string
  save: SaveFields
  /** Called when it was saved, or given up with Escape. */
  onClose(isSaved: boolean): void
}

/** A form whose fields keep what was typed until it was saved: Enter saves, Escape gives it up. */
export function fieldForm(fields: Field[], { name, submit: label, save, onClose }: FormOptions): FieldForm {
  const trouble = make('p', { class: 'trouble', role: 'alert', hidden: true })
  const submit = make('button', { class: 'primary' }, label)
  const cancel = button({ class: 'quiet', onclick: () => onClose(false) }, 'Cancel')
  const inputs = fields.map(({ name, value, type = 'text' }) => {
    const input = make('input', { name, type, dir: 'auto', spellcheck: 'false', autocomplete: 'off' })
    input.value = value
    return input
  })
  const shown = inputs.map(({ value }) => value)
  const notes = fields.map(() => make('small', { class: 'elsewhere-now', role: 'status', dir: 'auto' }))
  const rows = fields.map(({ label: text, hint }, index) =>
    make(
      'div',
      {},
      make(
        'label',
        {},
        make('span', {}, text, hint !== undefined && make('small', {}, hint)),
        inputs[index]!,
      ),
      notes[index]!,
    ),
  )
  const element = make(
    'form',
    { class: 'fields', 'aria-label': name, onsubmit: (event) => void onSubmit(event), onkeydown: onKey },
    ...rows,
    trouble,
    make('div', { class: 'choices' }, submit, cancel),
  )

  function typed(): HTMLInputElement[] {
    return inputs.filter(({ value }, index) => value !== shown[index])
  }

  function onKey(event: Event): void {
    if ((event as KeyboardEvent).key !== 'Escape') return
    event.preventDefault()
    onClose(false)
  }

  async function onSubmit(event: Event): Promise<void> {
    event.preventDefault()
    if (submit.disabled) return
    submit.disabled = true
    trouble.hidden = true
    const failure = await save(Object.fromEntries(typed().map(({ name, value }) => [name, value])))
    submit.disabled = false
    if (failure === null) return onClose(true)
    trouble.textContent = failure
    trouble.hidden = false
    // The button had the focus, and lost it while it was disabled.
    if (!element.contains(document.activeElement)) focus()
  }

  function update(now: Field[]): void {
    for (const [index, input] of inputs.entries()) {
      const { value: stored, type } = now.find(({ name }) => name === input.name) ?? fields[index]!
      const value = inputText(stored)
      const isUntouched = input.value === shown[index]
      if (isUntouched) input.value = value
      else if (value !== shown[index] && value !== input.value)
        notes[index]!.textContent =
          type === 'password' ? 'Changed on another device' : `On another device: ${value || 'empty'}`
      shown[index] = value
    }
  }

  function focus(): void {
    // A new title can be typed at once.
    if (typed().length === 0) inputs[0]?.select()
    inputs[0]?.focus()
    element.scrollIntoView({ block: 'nearest' })
  }

  return { element, update, focus, isTyped: () => typed().length > 0 }
}

/** What an input shows of a text: without line breaks, which a field keeps unless something else is typed into it. */
function inputText(text: string): string {
  const input = make('input')
  input.value = text
  return input.value
}

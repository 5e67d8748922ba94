import { bucketOf, checkAccount, parseAccount } from '../client/account.ts'
import type { ClientError } from '../client/errors.ts'
import type { Credentials } from './opened-account.ts'
import { byId } from './elements.ts'

const form = byId<HTMLFormElement>('credentials')
const names: (keyof Credentials)[] = ['token', 'keyId', 'bucket', 'syncKey']

/** Reads the form. Throws `ClientError` if a value is invalid. */
export function readForm(): Credentials {
  const { token, keyId, bucket, syncKey } = checkAccount(
    Object.fromEntries(names.map((name) => [name, field(name).value])),
  )
  return { token, keyId, bucket, syncKey }
}

/** Sets the given fields and leaves the others. */
export function fillIn(values: Partial<Credentials>): void {
  for (const name of names) field(name).value = values[name] ?? field(name).value
  if (values.keyId && !values.bucket) field('bucket').value = bucketOf(values.keyId)
}

/** Shows an error next to the field that it concerns, and focuses that field; null removes the error. */
export function showTrouble(trouble: ClientError | null): void {
  for (const name of names) {
    field(name).removeAttribute('aria-invalid')
    field(name).removeAttribute('aria-describedby')
  }
  const place = byId('trouble')
  place.hidden = trouble === null
  place.textContent = trouble?.message ?? ''
  const missing = names.find((name) => name !== 'bucket' && field(name).value === '')
  const named = names.find((name) => name === trouble?.field)
  field(named ?? missing ?? 'token').focus()
  if (named === undefined) return byId('welcome-back').after(place)
  const wrong = field(named)
  wrong.closest('label')!.after(place)
  wrong.setAttribute('aria-invalid', 'true')
  wrong.setAttribute('aria-describedby', place.id)
  wrong.select()
}

/** Empties the form. */
export function resetForm(): void {
  form.reset()
}

function field(name: keyof Credentials): HTMLInputElement {
  return form.elements.namedItem(name) as HTMLInputElement
}

form.addEventListener('paste', (event) => {
  const values = parseAccount(event.clipboardData?.getData('text') ?? '')
  if (Object.keys(values).length === 0) return
  event.preventDefault()
  fillIn(values)
})
field('keyId').addEventListener('input', () => {
  field('bucket').value = bucketOf(field('keyId').value.trim()) || field('bucket').value
})

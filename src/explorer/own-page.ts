/** What differs in a page that a command serves itself, for one account: it gets that for the code of its link, and keeps nothing. */
import { ClientError } from '../client/errors.ts'

/** The bridge that a command names in the page that it serves itself; null if a bridge serves this page. */
export const ownBridge = document.documentElement.dataset.bridge ?? null

/** The collections that the command allows to write; null if a bridge serves this page. */
export const ownWritable =
  ownBridge === null
    ? null
    : new Set((document.documentElement.dataset.writable ?? '').split(' ').filter(Boolean))

/** Takes the code of a command's link from the address of the tab; null if there is none. */
export function takeCode(): string | null {
  const [, code = null] = /^#code=([\w-]+)$/.exec(location.hash) ?? []
  if (code !== null) history.replaceState(null, '', location.pathname + location.search)
  return code
}

/** Exchanges the code of a link for the values of an account. Rejects with `ClientError`. */
export async function exchange<Values>(code: string): Promise<Values> {
  const answer = await fetch('account', { method: 'POST', body: code }).catch(() => {
    throw new ClientError('The command that made this link has ended: start it again.')
  })
  const body = await answer.json().catch(() => ({}))
  if (answer.ok) return body
  throw new ClientError(`${body.message ?? 'This link is not valid.'} ${newLink}`)
}

/** How to get another link. */
export const newLink = 'Press Enter in the terminal where the command runs: it prints a new link.'

import { ClientError } from '../client/errors.ts'
import { Editing } from './editing.ts'
import { byId } from './elements.ts'
import { nothing } from './drawing.ts'
import { fillIn, readForm, resetForm, showTrouble } from './form.ts'
import { LoadedRecords } from './loaded-records.ts'
import { openAccount, type Credentials, type OpenedAccount } from './opened-account.ts'
import { exchange } from './own-page.ts'
import type { Page } from './page.ts'
import { initialState, type State } from './state.ts'
import { forget, readPlace, remember, setAddress } from './tab.ts'
import { views } from './views.ts'

const keepsKey = document.querySelectorAll<HTMLInputElement>('[data-keeps-key]')

/** Connects the page to an account with the values of the form, and forgets it. */
export class Connecting {
  readonly #state: State
  readonly #page: Page

  constructor(state: State, page: Page) {
    this.#state = state
    this.#page = page
    for (const box of keepsKey) {
      box.addEventListener('change', () => {
        setKeepsKey(box.checked)
        if (state.credentials !== null) remember(state.credentials, box.checked)
      })
    }
  }

  /** Connects if all values are present. */
  open(values: Partial<Credentials>, isKeyKept: boolean): void {
    fillIn(values)
    setKeepsKey(isKeyKept)
    byId('welcome-back').hidden = !values.token || !values.keyId || Boolean(values.syncKey)
    if (!values.token || !values.keyId || !values.syncKey) return this.ask(null)
    byId('content').replaceChildren(nothing('Connecting to the bridge …'))
    this.#page.show('explorer')
    void this.connect()
  }

  /** Connects with the values that a command gives for the code of its link. */
  async openLink(code: string): Promise<void> {
    try {
      this.open(await exchange<Credentials>(code), false)
    } catch (error) {
      this.ask(asClientError(error))
    }
  }

  /** Shows the form, and why. */
  ask(trouble: ClientError | null): void {
    this.#page.show('connect')
    // It would cover the form; its address stays, so that it opens again after the form.
    this.#page.record.close()
    byId('back').hidden = this.#state.editing === null
    byId<HTMLButtonElement>('open').disabled = false
    showTrouble(trouble)
  }

  /** Reads everything with the values of the form. The old content stays until new records arrive. */
  async connect(): Promise<void> {
    const state = this.#state
    const current = ++state.connection
    byId('trouble').hidden = true
    byId<HTMLButtonElement>('open').disabled = true
    try {
      const asked = readForm()
      const account = await openAccount(asked)
      if (current !== state.connection) return
      this.#hold(account, asked)
      remember(asked, keepsKey[0]!.checked)
      if (readPlace().name === '') setAddress(views[0]!.id)
      this.#page.follow()
      await state.loaded.read(() => {
        state.isOutdated = true
        this.#page.drawSoon()
      })
    } catch (error) {
      if (current !== state.connection) return
      state.connection += 1
      state.contents = null
      this.ask(asClientError(error))
    }
  }

  /** Forgets the account. */
  leave(): void {
    const { loaded, tree, connection } = this.#state
    loaded.stop()
    Object.assign(this.#state, initialState(), { connection: connection + 1 })
    this.#state.tree.onSelect = tree.onSelect
    forget()
    history.replaceState(null, '', location.pathname + location.search)
    resetForm()
    setKeepsKey(false)
    byId('welcome-back').hidden = true
    this.#page.clear()
    this.ask(null)
  }

  /** Holds an account. If it is the one before, what was typed and the last change stay. */
  #hold(account: OpenedAccount, asked: Credentials): void {
    const state = this.#state
    const { keyId, bucket } = state.credentials ?? {}
    const isSame = asked.keyId === keyId && asked.bucket === bucket
    if (!isSame) state.draft = null
    state.credentials = asked
    state.loaded.stop()
    state.loaded = new LoadedRecords(account)
    state.contents = null
    const onChange = (hasNewRecords: boolean) => {
      if (hasNewRecords) state.isOutdated = true
      this.#page.drawSoon()
    }
    state.editing = new Editing(account, state.loaded, onChange, isSame ? state.editing : null)
  }
}

function asClientError(error: unknown): ClientError {
  return error instanceof ClientError ? error : new ClientError(String(error))
}

function setKeepsKey(isKeyKept: boolean): void {
  for (const box of keepsKey) box.checked = isKeyKept
}

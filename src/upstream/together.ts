/**
 * Lets whoever waits go on at the end of this turn of the event loop, all at once. Requests that came in together so
 * go out together: the runtime's network thread is woken once for all of them and not once for each.
 */
export class Together {
  #turn: Promise<void> | null = null

  wait(): Promise<void> {
    return (this.#turn ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#turn = null
        resolve()
      })
    }))
  }
}

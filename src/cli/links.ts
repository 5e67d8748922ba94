import { createOwnPages, type PageName } from '../guides/own-pages.ts'
import { openListener } from './listener.ts'
import type { Host } from './host.ts'

interface LinksOptions {
  /** The bridge that the pages ask, without a path. */
  bridgeUrl: string
  /** 0: any free port. */
  port: number
  /** The collections that the API page may write; without them there is no API page. */
  writable?: ReadonlySet<string>
  /** The collections that the explorer may edit. @default none */
  editable?: ReadonlySet<string>
}

export type Links = ReturnType<typeof startLinks>

/** Serves pages on this machine that get an account by a link. Throws if the port can't be used. */
export function startLinks({ port, ...options }: LinksOptions, { monotonicNow, randomBytes }: Host) {
  const pages = createOwnPages({ ...options, monotonicNow, randomBytes })
  const listener = openListener({ hostname: '127.0.0.1', port, isLocal: true }, pages.answer)
  const origin = `http://127.0.0.1:${listener.port}`
  return {
    origin,
    /** A link to a page that works once and for a minute, and replaces the one before. */
    issue: (page: PageName, values: () => Promise<Record<string, string>>): string =>
      origin + pages.issueLink(page, values),
    stop: () => listener.stop(true),
  }
}

/** Calls `act` whenever the user presses Enter; returns false where no terminal can be read. */
export function onEnter(host: Host, act: () => void): boolean {
  const { stdin } = process
  if (!stdin.isTTY || isInBackground(host)) return false
  stdin.on('data', act)
  return true
}

/** Whether this process would be stopped if it read from the terminal; only Linux says so. */
function isInBackground({ readFile }: Host): boolean {
  try {
    // The fields after the program's name: state, parent, group, session, terminal, and the group in its foreground; see proc(5).
    const [, , group, , , foreground] = readFile('/proc/self/stat')
      .replace(/^.*\) /s, '')
      .split(' ')
    return group !== foreground
  } catch {
    return false
  }
}

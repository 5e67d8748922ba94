/**
 * The pages that a command serves by itself: the explorer, and the API page of the sandbox. A page gets the account with a code that is
 * valid for a minute and once, so that neither a key nor a token is ever part of an address.
 */
import { bridgeRoot } from '../client/writable.ts'
import { explorerFiles } from './explorer-files.ts'
import { docsFiles, noMarkup, pageServer, showWrites, type PageFile } from './page-files.ts'

interface OwnPagesOptions {
  /** The bridge that the pages ask, without `/v1`. */
  bridgeUrl: string
  /** The collections that the API page may write; without them there is no API page. */
  writable?: ReadonlySet<string>
  /** The collections that the explorer may edit. @default none */
  editable?: ReadonlySet<string>
  /** In ms. */
  monotonicNow(): number
  randomBytes(length: number): Uint8Array
}

export type PageName = 'explore' | 'docs'

/** What a code is exchanged for. */
interface Handover {
  code: string
  issuedAtMs: number
  values(): Promise<Record<string, string>>
}

const codeLifetimeMs = 60_000
const codeBytes = 16

/** Creates the pages. The listener must reject requests for other hosts than this machine. */
export function createOwnPages(options: OwnPagesOptions) {
  const { bridgeUrl, writable, editable = new Set(), monotonicNow, randomBytes } = options
  const bridge = new URL(bridgeUrl).origin
  const api = `${bridgeRoot(bridgeUrl)}/v1/`
  const explorer = pageServer(explorerFiles, noMarkup, bridge)
  const docs = pageServer(docsFiles, '', bridge)
  const handovers = new Map<PageName, Handover>()

  const own = `data-bridge="${Bun.escapeHTML(bridgeUrl)}" data-writable="${[...editable].join(' ')}"`

  /** The page says where the bridge is, what it may edit, and that it is a command's own. */
  const asOwn = (page: string) =>
    page
      .replace('<html lang="en"', () => `<html lang="en" ${own}`)
      .replace(/<a data-guide.*?<\/a>/, '')
      .replaceAll(/href="(?=docs\/guides|__api__)/g, () => `href="${Bun.escapeHTML(api)}`)

  async function fileOf(path: string): Promise<PageFile | null> {
    if (path === '/explore') return explorer('explore.html', asOwn)
    if (path.startsWith('/explore/')) return explorer(path.slice('/explore/'.length))
    if (writable === undefined) return null
    if (path === '/docs') return docs('page.html', (page) => showWrites(asOwn(page), writable, writable))
    return path.startsWith('/docs/') ? docs(path.slice('/docs/'.length)) : null
  }

  /** Hands over the account. The code is spent by this request, and not by a visit, because programs preview links. */
  async function handOver(request: Request): Promise<Response> {
    const { headers } = request
    const site = headers.get('Sec-Fetch-Site') ?? 'same-origin'
    if (headers.get('Origin') !== `http://${headers.get('Host')}` || site !== 'same-origin')
      return Response.json({ message: 'Only the page itself may ask for the account.' }, { status: 403 })
    const code = await request.text()
    const [page, handover] =
      Array.from(handovers).find(([, { code: issued }]) => issued === code) ?? ([] as const)
    if (page !== undefined) handovers.delete(page)
    if (!handover || monotonicNow() - handover.issuedAtMs > codeLifetimeMs)
      return Response.json({ message: 'This link was used before, or has expired.' }, { status: 403 })
    return Response.json(await handover.values())
  }

  return {
    /** A new link to a page, below the address of the listener. It replaces the one before. `values` is called when it is used. */
    issueLink(page: PageName, values: Handover['values']): string {
      const code = Buffer.from(randomBytes(codeBytes)).toString('base64url')
      handovers.set(page, { code, issuedAtMs: monotonicNow(), values })
      // In the fragment, because browsers do not send it to servers or logs.
      return `/${page}#code=${code}`
    },

    async answer(request: Request): Promise<Response> {
      const { pathname } = new URL(request.url)
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const answer =
        pathname === '/account' && request.method === 'POST'
          ? await handOver(request)
          : asResponse(isRead ? await fileOf(pathname) : null)
      // Another program may listen at this port next.
      answer.headers.set('Cache-Control', 'no-store')
      return answer
    },
  }
}

function asResponse(file: PageFile | null): Response {
  if (file === null) return new Response('Path not found\n', { status: 404 })
  const { status, headers, body } = file
  return new Response(body as BodyInit, { status, headers })
}

import type { Reply } from '../protocol/reply.ts'
import { unknownPath } from './guard.ts'

/** A file of a page: where its text or bytes are, and its media type. */
export interface PageFile {
  type: string
  read(): Promise<string | Uint8Array>
}

// Pages set styles by script only, so not even styles need an exception.
const pagePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** Serves the files of a page by name, under a policy that lets it load from its own origin only. Throws 404. */
export function pageServer(files: Record<string, PageFile>, morePolicy = '') {
  return async (name: string, edit: (text: string) => string = (text) => text): Promise<Reply> => {
    if (!Object.hasOwn(files, name)) throw unknownPath()
    const { type, read } = files[name]!
    const body = await read()
    return {
      status: 200,
      headers: {
        'Content-Type': type.startsWith('text/') ? `${type}; charset=utf-8` : type,
        'Content-Security-Policy': pagePolicy + morePolicy,
        'Referrer-Policy': 'no-referrer',
      },
      body: typeof body === 'string' ? edit(body) : body,
    }
  }
}

/**
 * A file that is embedded as text. The build embeds the sources as they are; types and indentation are taken out of
 * scripts at their first request.
 */
export function textFile(name: string, load: () => Promise<unknown>): PageFile {
  let made: Promise<string> | null = null
  const type = { html: 'text/html', css: 'text/css', md: 'text/plain' }[name.replace(/^.*\./, '')]
  const read = async () => {
    const { default: source } = (await load()) as { default: string }
    if (type === undefined) return toScript(source)
    if (type === 'text/plain') return source
    const flat = source.replaceAll(/^ +/gm, '')
    return type === 'text/html'
      ? flat
      : flat.replaceAll(/ ?([;{},])\n/g, '$1').replaceAll(/([;{][a-z-]+): /g, '$1:')
  }
  return { type: type ?? 'text/javascript', read: () => (made ??= read()) }
}

function toScript(source: string): string {
  const transpiler = new Bun.Transpiler({ loader: 'ts', target: 'browser', minifyWhitespace: true })
  // The explorer uses the file that users are given to take, which the repository has in another folder.
  return transpiler.transformSync(source).replaceAll('../../docs/examples/', './')
}

/** Renders the Markdown guides as HTML pages that link to each other. */
import { basename } from 'node:path'
import { readDocuments } from './documents.ts' with { type: 'macro' }
import { fileReply, type PageFile } from './page-files.ts'
import type { SearchSection } from './guides-search.ts'
import imagePath from '../../docs/images/explorer.png' with { type: 'file' }

// By path in the repository, which their links use.
const documents: Record<string, string> = readDocuments()

/** The name of a document in its URL: "run" for docs/run.md, "examples/nginx.conf" for other files. */
function documentName(path: string): string {
  const isGuide = path.endsWith('.md')
  return isGuide ? basename(path, '.md').toLowerCase() : path.replace(/^docs\//, '')
}

const paths = new Map(Object.keys(documents).map((path) => [documentName(path), path]))

/** The pages by purpose. The title of a page is its first heading. */
const groups = [
  { title: 'Learn', names: ['get-started'] },
  {
    title: 'Do',
    names: ['your-data', 'connect', 'backup', 'recipes', 'clients', 'run', 'scale', 'troubleshooting'],
  },
  { title: 'Look up', names: ['settings', 'commands', 'log-events-and-metrics', 'interface', 'examples'] },
  { title: 'Understand', names: ['promises', 'architecture', 'decisions', 'sources'] },
  { title: 'Project', names: ['readme', 'changelog', 'contributing', 'security'] },
].map(({ title, names }) => ({
  title,
  names: names.filter((name) => name === 'examples' || paths.has(name)),
}))

/** All pages in reading order. */
function readingOrder({ isStatic }: Site): string[] {
  const names = groups.flatMap((group) => group.names)
  return isStatic ? ['readme', ...names.filter((name) => name !== 'readme')] : names
}

/** Where the pages are published. */
export interface Site {
  title: string
  hasExplorer: boolean
  /** Whether the pages are static files, without a bridge: URLs then have file endings, and the README is the front page. */
  isStatic?: boolean
  /** The repository's URL, for links. */
  source?: string
}

/** The names of all pages and documents by URL, without images. */
export function guideNames(site: Site): Map<string, string> {
  const names = [...paths.keys(), 'examples', 'search.js']
  return new Map(names.map((name) => [documentUrl(name, site), name]))
}

/** Serves a guide, or another document, by name. Resolves to null for an unknown name. */
export async function guideFile(name: string, site: Site): Promise<PageFile | null> {
  if (name === 'images/explorer.png') return fileReply('png', await Bun.file(imagePath).bytes())
  if (name === 'search.js') return fileReply('js', searchIndex(site))
  if (name === 'examples') return fileReply('html', layOut(name, listExamples(site), site))
  const path = paths.get(name)
  if (path === undefined) return null
  const text = documents[path]!
  if (!path.endsWith('.md')) return fileReply('txt', text)
  return fileReply('html', layOut(name, draw(text, path, site), site))
}

/** The URL of a document, relative to the page of a guide. */
function documentUrl(name: string, { isStatic }: Site): string {
  if (!isStatic || name === 'search.js' || name.startsWith('images/')) return name
  if (name === 'readme') return 'index.html'
  // File servers choose the media type by the ending, and all examples must be shown as text.
  return name === 'examples' || paths.get(name)?.endsWith('.md') ? `${name}.html` : `${name}.txt`
}

function documentTitle(name: string): string {
  if (name === 'examples') return 'Examples'
  return /^# (.*)$/m.exec(documents[paths.get(name)!]!)?.[1] ?? name
}

/** The first sentence below the title, which says what the page is for. */
function purposeOf(name: string): string {
  if (name === 'examples') return 'Files to copy: clients, proxies, containers, alerts.'
  const [, paragraph = ''] = /^# .*\n\n([^]*?)\n\n/m.exec(documents[paths.get(name)!]!) ?? []
  const html = Bun.markdown
    .html(paragraph)
    .replaceAll(/<[^<>]*>/g, '')
    .trim()
  return /^.*?[.:](?=\s|$)/s.exec(html)?.[0].replace(/:$/, '.') ?? html
}

function draw(text: string, path: string, site: Site): string {
  return (
    Bun.markdown
      .html(text, { headings: true })
      // Makes wide parts scrollable, by keyboard too.
      .replaceAll('<pre>', '<pre tabindex="0">')
      .replaceAll('<table>', '<div class="wide" tabindex="0"><table>')
      .replaceAll('</table>', '</table></div>')
      .replaceAll('<th></th>', '<td></td>')
      .replaceAll(
        /(href|src)="([^"#:][^":]*)"/g,
        (_, attribute: string, target: string) => `${attribute}="${linkFrom(path, target, site)}"`,
      )
  )
}

/** The URL for a link in a document. */
function linkFrom(path: string, target: string, site: Site): string {
  const { pathname, hash } = new URL(target, `file:///${path}`)
  return documentUrl(documentName(pathname.slice(1)), site) + hash
}

function listExamples(site: Site): string {
  const names = [...paths.keys()].filter((name) => name.startsWith('examples/'))
  const items = names.map((name) => `<li>${link(documentUrl(name, site), name.slice(9))}</li>`)
  return `<h1>Examples</h1><ul>${items.join('')}</ul>`
}

const searchIndexes = new WeakMap<Site, string>()

/** A script, because pages opened as files can't load anything else. */
function searchIndex(site: Site): string {
  const made =
    searchIndexes.get(site) ?? `globalThis.searchSections = ${JSON.stringify(searchSections(site))}`
  searchIndexes.set(site, made)
  return made
}

function searchSections(site: Site): SearchSection[] {
  return readingOrder(site).flatMap((name) => {
    const path = paths.get(name)
    if (path === undefined) return []
    const page = documentUrl(name, site)
    const parts = draw(documents[path]!, path, site).matchAll(
      /<h([1-3]) id="([^"]*)">([^]*?)<\/h\1>([^]*?)(?=<h[1-3] |$)/g,
    )
    return Array.from(parts, ([, , id, heading, html]): SearchSection => {
      return { page, title: documentTitle(name), id: id!, heading: plain(heading!), text: plain(html!) }
    })
  })
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

/** The text content of HTML. */
function plain(html: string): string {
  return html
    .replaceAll(/<[^<>]*>/g, ' ')
    .replaceAll(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => entities[name]!)
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** The start page for browsers: the enabled pages, and the guides. */
export function frontPage(site: Site): PageFile {
  const card = (address: string, name: string, text: string) =>
    `<li><a href="${address}"><strong>${name}</strong><span>${text}</span></a></li>`
  const cards = (all: (string | false)[]) => `<ul class="cards">${all.filter(Boolean).join('')}</ul>`
  const cardOf = (name: string) => card(`guides/${name}`, documentTitle(name), purposeOf(name))
  const title = Bun.escapeHTML(site.title)
  const body = `<h1>${title}</h1>
<p>This bridge serves the collections of a Firefox Sync storage as JSON records. They stay encrypted: it never has the key.
Programs start at <a href="../">the root view</a>.</p>
${cards([
  site.hasExplorer && card('../explore', 'Explorer', 'Look at your own data, decrypted in your browser.'),
  card('../docs', 'API', 'Every request, with a form to try it.'),
])}
${groups.map(({ title: group, names }) => `<h2>${group}</h2>${cards(names.map(cardOf))}`).join('')}`
  return fileReply('html', frame({ title, up: '', guides: 'guides/', links: headerLinks('', site), body }))
}

/** A page with links to all others, to its neighbours, and to its sections. */
function layOut(name: string, html: string, site: Site): string {
  const sections = [...html.matchAll(/<h2 id="([^"]*)"><a [^>]*>(.*?)<\/a><\/h2>/g)]
  const contents = sections.map(([, id, text]) => `<li><a href="#${id}">${text}</a></li>`).join('')
  const onThisPage = sections.length > 2 ? `<nav aria-label="On this page"><ul>${contents}</ul></nav>` : ''
  const listed = readingOrder(site)
  const index = listed.indexOf(name)
  const at = (place: number) => `href="${documentUrl(listed[place]!, site)}"`
  const neighbours = [
    index > 0 && `<a rel="prev" ${at(index - 1)}>← ${documentTitle(listed[index - 1]!)}</a>`,
    index >= 0 &&
      index + 1 < listed.length &&
      `<a rel="next" ${at(index + 1)}>${documentTitle(listed[index + 1]!)} →</a>`,
  ]
  const body = `${onThisPage}${html}<nav aria-label="Next">${neighbours.filter(Boolean).join(' ')}</nav>`
  const title = [...new Set([documentTitle(name), site.title])]
    .map((text) => Bun.escapeHTML(text))
    .join(' · ')
  const all = groups.map(({ title: group, names }) => {
    const items = names.map(
      (each) => `<li>${link(documentUrl(each, site), documentTitle(each), each === name)}</li>`,
    )
    if (group === 'Look up' && !site.isStatic) items.unshift(`<li>${link('../../docs', 'API')}</li>`)
    return `<h2>${group}</h2><ul>${items.join('')}</ul>`
  })
  const pages = `<nav aria-label="Pages" id="pages">${all.join('')}</nav>`
  const up = site.isStatic ? '' : '../'
  return frame({ title, up, guides: '', links: headerLinks(up, site), body, pages })
}

function headerLinks(up: string, site: Site): string {
  const links = [
    link(site.isStatic ? 'index.html' : `${up}guides`, Bun.escapeHTML(site.title)),
    site.hasExplorer && link(`${up}../explore`, 'Explorer'),
    !site.isStatic && link(`${up}../docs`, 'API'),
    site.source && link(Bun.escapeHTML(site.source), 'Source code'),
  ]
  return links.filter(Boolean).join(' ')
}

function link(address: string, html: string, isCurrent = false): string {
  return `<a href="${address}"${isCurrent ? ' aria-current="page"' : ''}>${html}</a>`
}

interface Frame {
  title: string
  /** The relative path from the page to the folder of the files. */
  up: string
  /** The relative path from the page to the folder of the guides. */
  guides: string
  links: string
  body: string
  /** The list of all pages. */
  pages?: string
}

// The list comes after the text, so that small screens and screen readers get the text first. The search needs its script.
function frame({ title, up, guides, links, body, pages = '' }: Frame): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${up}favicon.png">
<link rel="stylesheet" href="${up}guides.css">
<script defer src="${up}guides-search.js"></script>
</head>
<body>
<header><nav aria-label="Site">${links}${pages ? ' <a href="#pages" class="all">All pages</a>' : ''}</nav>
<form role="search" data-guides="${guides}" hidden><label for="words">Search</label><input id="words" type="search" autocomplete="off">
<p role="status"></p><ul></ul></form></header>
<div${pages ? ' class="columns"' : ''}><main>${body}</main>${pages}</div>
</body>
</html>`
}

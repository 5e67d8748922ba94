/** The guides as pages: Markdown drawn as HTML, whose links lead to one another. */
import { basename } from 'node:path'
import { readDocuments } from './documents.ts' with { type: 'macro' }
import { fileReply, type PageFile } from './page-files.ts'
import type { SearchSection } from './guides-search.ts'
import imagePath from '../../docs/images/explorer.png' with { type: 'file' }

// By their paths in the repository, where they link to one another.
const documents: Record<string, string> = readDocuments()

/** What a document is called in its address: "run" for docs/run.md, "examples/nginx.conf" for what is no Markdown. */
function nameOf(path: string): string {
  const isGuide = path.endsWith('.md')
  return isGuide ? basename(path, '.md').toLowerCase() : path.replace(/^docs\//, '')
}

const paths = new Map(Object.keys(documents).map((path) => [nameOf(path), path]))

/** The pages by what readers want to do. The title of a page is its first heading. */
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
const listed = groups.flatMap(({ names }) => names)

/** What the settings say of the pages. */
export interface Site {
  title: string
  hasExplorer: boolean
}

/** The page of a guide, or another document, by its name. Resolves to null where there is none. */
export async function guideFile(name: string, site: Site): Promise<PageFile | null> {
  if (name === 'images/explorer.png') return fileReply('png', await Bun.file(imagePath).bytes())
  if (name === 'search.json') return fileReply('json', (searchIndex ??= makeSearchIndex()))
  if (name === 'examples') return fileReply('html', layOut(name, listExamples(), site))
  const path = paths.get(name)
  if (path === undefined) return null
  const text = documents[path]!
  if (!path.endsWith('.md')) return fileReply('txt', text)
  return fileReply('html', layOut(name, draw(text, path), site))
}

function titleOf(name: string): string {
  if (name === 'examples') return 'Examples'
  return /^# (.*)$/m.exec(documents[paths.get(name)!]!)?.[1] ?? name
}

/** What a page is for: the first sentence below its title. */
function purposeOf(name: string): string {
  if (name === 'examples') return 'Files to copy: clients, proxies, containers, alerts.'
  const [, paragraph = ''] = /^# .*\n\n([^]*?)\n\n/m.exec(documents[paths.get(name)!]!) ?? []
  const html = Bun.markdown
    .html(paragraph)
    .replaceAll(/<[^<>]*>/g, '')
    .trim()
  return /^.*?[.:](?=\s|$)/s.exec(html)?.[0].replace(/:$/, '.') ?? html
}

function draw(text: string, path: string): string {
  return (
    Bun.markdown
      .html(text, { headings: true })
      // What is wide scrolls by itself, with the keyboard too.
      .replaceAll('<pre>', '<pre tabindex="0">')
      .replaceAll('<table>', '<div class="wide" tabindex="0"><table>')
      .replaceAll('</table>', '</table></div>')
      .replaceAll('<th></th>', '<td></td>')
      .replaceAll(
        /(href|src)="([^"#:][^":]*)"/g,
        (_, attribute: string, target: string) => `${attribute}="${linkFrom(path, target)}"`,
      )
  )
}

/** The address of a document, as seen from the page of another one. */
function linkFrom(path: string, target: string): string {
  const { pathname, hash } = new URL(target, `file:///${path}`)
  return nameOf(pathname.slice(1)) + hash
}

function listExamples(): string {
  const names = [...paths.keys()].filter((name) => name.startsWith('examples/'))
  return `<h1>Examples</h1><ul>${names.map((name) => `<li>${link(name, name.slice(9))}</li>`).join('')}</ul>`
}

let searchIndex: string | null = null

function makeSearchIndex(): string {
  const sections = listed.flatMap((page) => {
    const path = paths.get(page)
    if (path === undefined) return []
    const parts = draw(documents[path]!, path).matchAll(
      /<h([1-3]) id="([^"]*)">([^]*?)<\/h\1>([^]*?)(?=<h[1-3] |$)/g,
    )
    return Array.from(parts, ([, , id, heading, html]): SearchSection => {
      return { page, title: titleOf(page), id: id!, heading: plain(heading!), text: plain(html!) }
    })
  })
  return JSON.stringify(sections)
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

/** The text of markup. */
function plain(html: string): string {
  return html
    .replaceAll(/<[^<>]*>/g, ' ')
    .replaceAll(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => entities[name]!)
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** Where a browser finds everything: the pages that are on, and the guides. */
export function frontPage(site: Site): PageFile {
  const card = (address: string, name: string, text: string) =>
    `<li><a href="${address}"><strong>${name}</strong><span>${text}</span></a></li>`
  const cards = (all: (string | false)[]) => `<ul class="cards">${all.filter(Boolean).join('')}</ul>`
  const cardOf = (name: string) => card(`guides/${name}`, titleOf(name), purposeOf(name))
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

/** A page with links to all others, to its neighbours, and to its own sections. */
function layOut(name: string, html: string, site: Site): string {
  const sections = [...html.matchAll(/<h2 id="([^"]*)"><a [^>]*>(.*?)<\/a><\/h2>/g)]
  const contents = sections.map(([, id, text]) => `<li><a href="#${id}">${text}</a></li>`).join('')
  const onThisPage = sections.length > 2 ? `<nav aria-label="On this page"><ul>${contents}</ul></nav>` : ''
  const index = listed.indexOf(name)
  const neighbours = [
    index > 0 && `<a rel="prev" href="${listed[index - 1]}">← ${titleOf(listed[index - 1]!)}</a>`,
    index >= 0 &&
      index + 1 < listed.length &&
      `<a rel="next" href="${listed[index + 1]}">${titleOf(listed[index + 1]!)} →</a>`,
  ]
  const body = `${onThisPage}${html}<nav aria-label="Next">${neighbours.filter(Boolean).join(' ')}</nav>`
  const title = `${Bun.escapeHTML(titleOf(name))} · ${Bun.escapeHTML(site.title)}`
  const all = groups.map(({ title: group, names }) => {
    const items = names.map((each) => `<li>${link(each, titleOf(each), each === name)}</li>`)
    if (group === 'Look up') items.unshift(`<li>${link('../../docs', 'API')}</li>`)
    return `<h2>${group}</h2><ul>${items.join('')}</ul>`
  })
  const pages = `<nav aria-label="Pages" id="pages">${all.join('')}</nav>`
  return frame({ title, up: '../', guides: '', links: headerLinks('../', site), body, pages })
}

function headerLinks(up: string, site: Site): string {
  const links = [
    link(`${up}guides`, Bun.escapeHTML(site.title)),
    site.hasExplorer && link(`${up}../explore`, 'Explorer'),
    link(`${up}../docs`, 'API'),
  ]
  return links.filter(Boolean).join(' ')
}

function link(address: string, html: string, isCurrent = false): string {
  return `<a href="${address}"${isCurrent ? ' aria-current="page"' : ''}>${html}</a>`
}

interface Frame {
  title: string
  /** From the page to the folder of the files. */
  up: string
  /** From the page to the folder of the guides. */
  guides: string
  links: string
  body: string
  /** The list of all pages. */
  pages?: string
}

// The list stands behind the text, so that readers of a small screen, or by ear, meet the text first. The search needs its script.
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
<script type="module" src="${up}guides.js"></script>
</head>
<body>
<header><nav aria-label="Site">${links}${pages ? ' <a href="#pages" class="all">All pages</a>' : ''}</nav>
<form role="search" data-guides="${guides}" hidden><label for="words">Search</label><input id="words" type="search" autocomplete="off">
<p role="status"></p><ul></ul></form></header>
<div${pages ? ' class="columns"' : ''}><main>${body}</main>${pages}</div>
</body>
</html>`
}

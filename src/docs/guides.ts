/** The guides as pages: Markdown drawn as HTML, whose links lead to one another. */
import { basename } from 'node:path'
import { readDocuments } from './documents.ts' with { type: 'macro' }
import { fileReply, type PageFile } from './page-files.ts'
import imagePath from '../../docs/images/explorer.png' with { type: 'file' }

// By their paths in the repository, where they link to one another.
const documents: Record<string, string> = await readDocuments()

/** What a document is called in its address: "operate" for docs/operate.md, "examples/nginx.conf" for what is no Markdown. */
function nameOf(path: string): string {
  const isGuide = path.endsWith('.md')
  return isGuide ? basename(path, '.md').toLowerCase() : path.replace(/^docs\//, '')
}

const paths = new Map(Object.keys(documents).map((path) => [nameOf(path), path]))

/** The guides that people are led to. The others are found by their links. */
const shown: Record<string, string> = {
  connect: 'Your own account: where token and key come from',
  clients: 'Writing a client, and what Firefox makes of what it writes',
  promises: 'What is promised, and what a batch can leave behind',
  backup: 'A backup that runs by itself, and how to put it back',
  operate: 'Running a bridge: installing, watching, sizing, upgrading',
  settings: 'Every setting, with its default',
}

/** What the settings say of the pages. */
export interface Site {
  title: string
  hasExplorer: boolean
}

/** The page of a guide, or another document, by its name. Resolves to null where there is none. */
export async function guideFile(name: string, site: Site): Promise<PageFile | null> {
  if (name === 'images/explorer.png') return fileReply('png', await Bun.file(imagePath).bytes())
  if (name === 'examples') return fileReply('html', layOut('Examples', listExamples(), name, site))
  const path = paths.get(name)
  if (path === undefined) return null
  const text = documents[path]!
  if (!path.endsWith('.md')) return fileReply('txt', text)
  const title = /^# (.*)$/m.exec(text)?.[1] ?? name
  return fileReply('html', layOut(title, draw(text, path), name, site))
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

/** Where a browser finds everything: the pages that are on, and the guides. */
export function frontPage(site: Site): PageFile {
  const card = (address: string, name: string, text: string) =>
    `<li><a href="${address}"><strong>${name}</strong><span>${text}</span></a></li>`
  const pages = [
    site.hasExplorer && card('../explore', 'Explorer', 'Look at your own data, decrypted in your browser'),
    card('../docs', 'API', 'Every request, with a form to try it'),
    ...Object.entries(shown).map(([name, text]) => card(`guides/${name}`, titleOf(name), text)),
  ]
  const title = Bun.escapeHTML(site.title)
  const body = `<h1>${title}</h1>
<p>The collections of a Firefox Sync storage as JSON records, encrypted as they are: this service never holds the key.
Programs start at <a href="../">the root view</a>.</p>
<ul class="cards">${pages.filter(Boolean).join('')}</ul>`
  return fileReply('html', frame(title, '', '', body))
}

/** A page with links to all others, and to its own sections. */
function layOut(title: string, html: string, name: string, site: Site): string {
  const links = [
    link('../guides', Bun.escapeHTML(site.title)),
    site.hasExplorer && link('../../explore', 'Explorer'),
    link('../../docs', 'API'),
    ...Object.keys(shown).map((other) => link(other, titleOf(other), other === name)),
  ]
  const sections = [...html.matchAll(/<h2 id="([^"]*)"><a [^>]*>(.*?)<\/a><\/h2>/g)]
  const contents = sections.map(([, id, text]) => `<li><a href="#${id}">${text}</a></li>`).join('')
  const header = `<header><nav aria-label="Pages">${links.filter(Boolean).join(' ')}</nav></header>`
  const aside = sections.length > 2 ? `<nav aria-label="On this page"><ul>${contents}</ul></nav>` : ''
  return frame(`${Bun.escapeHTML(title)} · ${Bun.escapeHTML(site.title)}`, '../', header + aside, html)
}

function titleOf(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}

function link(address: string, html: string, isCurrent = false): string {
  return `<a href="${address}"${isCurrent ? ' aria-current="page"' : ''}>${html}</a>`
}

function frame(title: string, up: string, before: string, main: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${up}favicon.png">
<link rel="stylesheet" href="${up}guides.css">
</head>
<body>${before}<main>${main}</main></body>
</html>`
}

/** `bun .ci/site.ts FOLDER [SOURCE]` builds the guides as a static site with a front page. SOURCE is the URL of the repository. */
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { guideFile, guideNames, type Site } from '../src/guides/guides.ts'
import { docsFiles, pageServer } from '../src/guides/page-files.ts'
import { endAll } from '../tests/support/executable.ts'
import { recordCast } from './site-cast.ts'
import { pictureSizes, takePictures } from './site-pictures.ts'

const castFile = 'sync-bridge.cast'
const player = join(import.meta.dir, '../node_modules/asciinema-player')

/** Builds the site from scratch in a folder. Its links are relative, so that it works at any address, and without a server. */
export async function makeSite(folder: string, source = ''): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  await writePages(folder, source)
  const [recorded] = await Promise.all([recordCast(), takePictures(join(folder, 'images'))])
  writeFileSync(join(folder, castFile), recorded)
  writeFileSync(join(folder, 'cast.js'), castScript(recorded))
}

/** Everything except pictures and cast. The same sources result in the same bytes. */
export async function writePages(folder: string, source = ''): Promise<void> {
  mkdirSync(join(folder, 'images'), { recursive: true })
  const site: Site = { title: 'Sync Bridge', hasExplorer: false, isStatic: true, source }
  for (const [address, name] of guideNames(site)) {
    const { body } = (await guideFile(name, site))!
    const path = join(folder, address)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, name === 'readme' ? frontPage(String(body), source) : body)
  }
  const serve = pageServer(docsFiles)
  for (const name of ['favicon.png', 'guides-search.js'])
    writeFileSync(join(folder, name), (await serve(name))!.body)
  const styles = String((await serve('guides.css'))!.body)
  writeFileSync(join(folder, 'guides.css'), styles + readFileSync(join(import.meta.dir, 'site.css'), 'utf8'))
  for (const [file, name] of [
    ['dist/bundle/asciinema-player.min.js', 'player.js'],
    ['dist/bundle/asciinema-player.css', 'player.css'],
    ['LICENSE', 'player-license.txt'],
  ] as const)
    copyFileSync(join(player, file), join(folder, name))
}

/** The README as a front page: with pictures for both colour schemes, and the cast. */
function frontPage(html: string, source: string): string {
  return edit(html, [
    [/(?=<\/head>)/, playerFiles],
    [/<nav aria-label="On this page">.*?<\/nav>/, ''],
    [/<img src="images\/explorer.png" alt="([^"]*)"[^>]*>/, (_, alt) => picture('explorer', alt!)],
    [/(?=<h2 id="your-own-data">)/, figures],
    [/(?=<h2 id="alternatives">)/, cast],
    ...(source === '' ? [] : [[install, (line) => cloneAfter(line!, source)] satisfies Edit]),
  ])
}

const playerFiles = `<link rel="stylesheet" href="player.css">
<script defer src="player.js"></script>
<script defer src="cast.js"></script>
`

const figures = `<div class="pictures">
<figure>${picture('record', 'A bookmark: its address and folder, beside the encrypted record that the bridge has sent')}
<figcaption>A bookmark as your browser decrypts it, and as the bridge sees it</figcaption></figure>
<figure>${picture('phone', 'The explorer on a phone: the open tabs of a device')}
<figcaption>On a phone</figcaption></figure>
</div>
`

const cast = `<figure><div class="wide"><div id="cast"></div></div>
<figcaption>Recorded from a run with a made-up account, with shorter pauses. <a href="${castFile}">The recording as a file</a></figcaption></figure>
`

// A reader of the site has no clone yet.
const install = /sudo apt-get install .*\n(?=make run )/

function cloneAfter(line: string, source: string): string {
  return `${line}git clone ${Bun.escapeHTML(source)} sync-bridge &amp;&amp; cd sync-bridge\n`
}

type Edit = readonly [place: RegExp, replacement: string | ((...groups: string[]) => string)]

/** Replaces each of the texts. Throws if one is missing, because the README has changed. */
function edit(html: string, edits: Edit[]): string {
  return edits.reduce((text, [place, replacement]) => {
    if (!place.test(text)) throw new Error(`Cannot make the front page: README.md has no ${place.source}`)
    return text.replace(place, replacement as string)
  }, html)
}

function picture(name: keyof typeof pictureSizes, alt: string): string {
  const { width, height } = pictureSizes[name]
  return `<picture><source srcset="images/${name}-dark.png" media="(prefers-color-scheme: dark)">
<img src="images/${name}.png" alt="${alt}" width="${width}" height="${height}"></picture>`
}

/** Starts the player, and contains the recording, because a page opened as a file can't fetch it. Shows its last frame before it plays. */
function castScript(recorded: string): string {
  const lastLine = recorded.trimEnd().split('\n').at(-1)!
  const options = { fit: 'width', poster: `npt:${JSON.parse(lastLine)[0]}` }
  return `AsciinemaPlayer.create({ data: ${JSON.stringify(recorded)} }, document.getElementById('cast'), ${JSON.stringify(options)})\n`
}

if (import.meta.main) {
  const [, , folder = 'dist/site', source] = process.argv
  try {
    await makeSite(resolve(folder), source)
  } finally {
    endAll()
  }
}

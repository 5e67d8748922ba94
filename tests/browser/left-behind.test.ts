import { afterAll, describe, expect, it } from 'bun:test'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { accountFile, valuesOf } from '../cli/data/world.ts'
import { firefoxPath } from '../firefox/firefox.ts'
import { startTestBridge } from '../support/bridge.ts'
import { dieWithParent } from '../support/die-with-parent.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, makeFolder, start, type Running } from '../support/executable.ts'

afterAll(endAll)

const programs: Record<string, string | null> = { Chromium: Bun.which('chromium'), Firefox: firefoxPath }

/** How to start a browser with a profile of its own. */
const browsers: Record<string, (profile: string) => string> = {
  Chromium: (profile) =>
    `${programs.Chromium} --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --user-data-dir=${profile}`,
  Firefox: (profile) => `${programs.Firefox} --headless --no-remote --profile ${profile}`,
}

/** Where each of them keeps the addresses of pages. */
const histories: Record<string, string> = {
  Chromium: 'Default/History',
  Firefox: 'places.sqlite',
}

interface Desktop {
  profile: string
  /** The search path of programs. */
  path: string
  /** Has the process id of the browser. */
  pidFile: string
  /** Where the browser keeps the addresses of pages. */
  history: string
}

/** A new profile of this browser, and a folder with a program `xdg-open` that opens it, also at these links. */
function desktop(name: string, profile: string, links: string[]): Desktop {
  const pidFile = join(profile, 'test-pid')
  const quoted = links.map((link) => `'${link}'`).join(' ')
  const command = `echo $$ > ${pidFile}; exec ${dieWithParent('TERM').join(' ')} ${browsers[name]!(profile)} "$@" ${quoted} 2>/dev/null`
  const folder = makeFolder({ 'xdg-open': `#!/bin/sh\nexport HOME=${profile}\n${command}\n` })
  chmodSync(join(folder, 'xdg-open'), 0o755)
  return { profile, path: `${folder}:/usr/bin:/bin`, pidFile, history: join(profile, histories[name]!) }
}

/** Every file below a folder, with its bytes. */
function filesIn(folder: string): [path: string, bytes: Buffer][] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => existsSync(path) && statSync(path).isFile())
    .map((path) => [path, readFileSync(path)])
}

/** The files that contain a text, in either of the encodings that browsers use. */
function holding(files: [path: string, bytes: Buffer][], text: string): string[] {
  const forms = [Buffer.from(text), Buffer.from(text, 'utf16le')]
  return files.filter(([, bytes]) => forms.some((form) => bytes.includes(form))).map(([path]) => path)
}

/** Ends a browser once it has started, and has written these pages to its history, which takes Chromium ten seconds. */
async function close({ pidFile, history }: Desktop, pages: string[]): Promise<void> {
  await eventually('the browser has started', () => existsSync(pidFile) && statSync(pidFile).size > 0)
  const pid = Number(readFileSync(pidFile, 'utf8'))
  await eventually('its history is written', () => {
    const written = [history, `${history}-wal`].filter(existsSync).map((path) => readFileSync(path))
    return pages.every((page) => written.some((bytes) => bytes.includes(page)))
  })
  process.kill(pid, 'SIGTERM')
  await eventually('the browser has ended', () => !existsSync(`/proc/${pid}`))
}

// Whole browsers, because only they write the profiles in which a key could stay.
describe.each(Object.keys(browsers))('%s', (name) => {
  it.skipIf(!programs[name])(
    'remembers neither key nor token of "open", nor of the sandbox\'s link to the API page',
    async () => {
      await using bridge = await startTestBridge()
      const { sandbox, user } = bridge
      fillSampleData(sandbox, user, { bookmarks: 20, history: 10 })
      const values = valuesOf(sandbox, user)
      const account = accountFile(values)
      await using shown: Running = start(['sandbox', '--port', '0'])
      const [, file] = await shown.line(/^ {2}\. (\S+)$/)
      const sample = readFileSync(file!, 'utf8')
      // Its other link shows the page that "open" shows.
      const [, link] = await shown.line(/^ {2}(http\S+\/docs#\S+)$/)
      const wasUsed = () => shown.lines.some((line) => line.startsWith('The link was used'))
      // Chromium without a window opens only one page.
      const isAlone = name === 'Chromium'
      const first = desktop(name, makeFolder(), isAlone ? [] : [link!])
      const second = isAlone ? desktop(name, makeFolder(), [link!]) : null
      const address = link!.replace(/#.*/, '')
      const openedBy = async (own: Desktop) => {
        const environment = { PATH: own.path, DISPLAY: ':none', SYNC_BRIDGE_ACCOUNT: account }
        await using opened = start(['open'], { environment })
        await eventually('its page has got the account', () => opened.errors().includes('The link was used'))
        await eventually('it has read everything', () => wasRead(sandbox.requests.storage.entries))
        await eventually('the other page has got its own', wasUsed)
        const [page] = /http:[^\s#]+/.exec(opened.errors())!
        await close(own, [`${new URL(page).origin}/explore`, ...(isAlone ? [] : [address])])
      }
      const visited = async (own: Desktop) => {
        const visit = Bun.spawn([join(own.path.split(':')[0]!, 'xdg-open')], { env: { PATH: own.path } })
        await eventually('the page has got the account', wasUsed)
        await close(own, [address])
        await visit.exited
      }

      // Together, because each browser waits before it writes its history.
      await Promise.all([openedBy(first), second && visited(second)])
      const files = [first, ...(second ? [second] : [])].flatMap(({ profile }) => filesIn(profile))
      const secrets = ['BEARER_TOKEN', 'SYNC_KEY'].flatMap((line) =>
        [
          sample,
          Object.entries(values)
            .map((entry) => `${entry.join('=')}\n`)
            .join(''),
        ].map((lines) => new RegExp(`\\b${line}='?([^'\\n]+)`).exec(lines)![1]!),
      )
      // Else the search would prove nothing.
      expect(holding(files, '/explore')).toContain(first.history)
      expect(secrets.map((secret) => secret.length > 100)).toEqual([true, true, true, true])
      // A part of a secret would be enough to tell that there is one.
      for (const secret of secrets) expect(holding(files, secret.slice(-40))).toEqual([])
    },
    180_000,
  )
})

function wasRead(entries: readonly { target: string }[]): boolean {
  return ['history', 'tabs', 'passwords'].every((name) =>
    entries.some(({ target }) => target.includes(`/storage/${name}`)),
  )
}

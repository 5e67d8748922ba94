import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

/**
 * Bundles the scripts of pages: each with its imports in one file, and a source map beside it. Returns them by file name: `main.js` and
 * `main.js.map` for `main.ts`. A macro: it runs when the executable is built. It starts a bundler of its own and waits for it, because a
 * bundler can't wait for one inside itself.
 */
export function bundleScripts(entries: string[]): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-scripts-'))
  try {
    const paths = entries.map((entry) => join(import.meta.dir, entry))
    // In a function, because classic scripts share their variables with the page. Nothing is minified: users can read the code before they
    // enter a key.
    const options = ['--target=browser', '--format=iife', '--sourcemap=linked', '--entry-naming=[name].[ext]']
    const { exitCode, stderr } = Bun.spawnSync(
      [process.execPath, 'build', ...options, `--outdir=${folder}`, ...paths],
      { env: {} },
    )
    if (exitCode !== 0) throw new Error(`Cannot bundle ${entries.join(' ')}: ${stderr.toString()}`)
    const scripts = entries.map((entry) => basename(entry, '.ts'))
    return Object.fromEntries(
      scripts.flatMap((name) => [
        [`${name}.js`, read(folder, `${name}.js`)],
        [`${name}.js.map`, withoutFolders(read(folder, `${name}.js.map`))],
      ]),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function read(folder: string, name: string): string {
  return readFileSync(join(folder, name), 'utf8')
}

/** Names the sources by their paths below `src`: the folder that the project was built in stays out of the executable. */
function withoutFolders(map: string): string {
  const { sources, ...others } = JSON.parse(map) as { sources: string[] }
  const named = sources.map((source) => source.replace(/^.*\/src\//, ''))
  return JSON.stringify({ ...others, sources: named })
}

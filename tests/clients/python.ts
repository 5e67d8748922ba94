import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

export const kintoHttp = 'kinto-http==11.11.0'
/** The second to last major version, which sends a body of `{}` with every GET and HEAD. */
export const olderKintoHttp = 'kinto-http==10.9.0'
/** It imports `pkg_resources` without declaring the dependency. */
export const olderKintoHttpNeeds = 'setuptools==65.5.0'

/** What the Python examples of the guides import. */
export const clientNeeds = [kintoHttp, 'cryptography==50.0.2']

// In the checkout: another user could have created the name in a shared folder.
const cache = join(import.meta.dir, '../../node_modules/.cache')

/** Why no package can be installed; null if it can. */
export const whyNoPython =
  Bun.spawnSync(['sh', '-c', 'python3 -c "import ensurepip"']).exitCode === 0
    ? null
    : 'python3 or the package python3-venv is missing'

/** The path of a Python with these packages, installed once per checkout; or why there is none. Only a process can run its programs. */
export async function findPython(...requirements: string[]): Promise<{ path: string } | { reason: string }> {
  if (whyNoPython !== null) return { reason: whyNoPython }
  try {
    const folder = await madeOnce(nameOf('python', requirements), (place) =>
      installInto(place, ...requirements),
    )
    return { path: join(folder, 'bin/python') }
  } catch (error) {
    return { reason: error instanceof Error ? error.message : String(error) }
  }
}

/** A folder with those files of a package whose path contains one of these parts. */
export function unpack(requirement: string, parts: string[]): Promise<string> {
  return madeOnce(nameOf('unpacked', [requirement, ...parts]), async (place) => {
    const options = ['--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary', ':all:']
    await run('python3', await findPip(), 'download', ...options, '--dest', place, requirement)
    const [archive] = readdirSync(place)
    await run('python3', '-c', unpacking, join(place, archive!), place, ...parts)
  })
}

const unpacking = `import sys, zipfile
archive, place, *parts = sys.argv[1:]
names = [name for name in zipfile.ZipFile(archive).namelist() if any(part in name for part in parts)]
zipfile.ZipFile(archive).extractall(place, names)`

const nameOf = (kind: string, requirements: string[]) =>
  `${kind}-${requirements.join('-').replaceAll('==', '-')}`

/** One pip serves all environments, from the wheel that Debian has for them: installing it takes longer than installing the packages. */
const findPip = async () =>
  join(await madeOnce('pip', (place) => run('python3', '-c', unpackingPip, place)), 'pip')

const unpackingPip = `import ensurepip, glob, os, sys, zipfile
folders = ["/usr/share/python-wheels", os.path.dirname(ensurepip.__file__) + "/_bundled"]
[wheel, *_] = [path for folder in folders for path in glob.glob(folder + "/pip-*.whl")]
zipfile.ZipFile(wheel).extractall(sys.argv[1])`

/** Creates a virtual environment in this folder, with these arguments of pip. */
export async function installInto(folder: string, ...what: string[]): Promise<void> {
  await run('python3', '-m', 'venv', '--without-pip', folder)
  const options = ['--quiet', '--disable-pip-version-check', '--no-compile']
  await run(join(folder, 'bin/python'), await findPip(), 'install', ...options, ...what)
}

/** A cached folder of this name. */
async function madeOnce(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(cache, name)
  if (existsSync(folder)) return folder
  // Created elsewhere and renamed when complete, so that the next run never finds a broken installation.
  mkdirSync(cache, { recursive: true })
  const draft = mkdtempSync(join(cache, 'python-'))
  try {
    await make(draft)
    // Another process may have been faster.
    if (!existsSync(folder)) renameSync(draft, folder)
    return folder
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

async function run(...command: string[]): Promise<void> {
  const child = Bun.spawn(command, { stdout: 'ignore', stderr: 'pipe', timeout: 120_000 })
  const [errors, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (code !== 0) throw new Error(`"${command.slice(1).join(' ')}" failed: ${lastLine(errors)}`)
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? ''
}

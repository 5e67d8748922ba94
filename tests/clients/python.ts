import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

export const kintoHttp = 'kinto-http==11.11.0'
/** The last but one major version, which sends a body of `{}` with every GET and HEAD. */
export const olderKintoHttp = 'kinto-http==10.9.0'

/** What `clients/python` needs. */
export const clientNeeds = [kintoHttp, 'cryptography==50.0.2']

// In the checkout: a name in a folder that all users share could belong to somebody else.
const cache = join(import.meta.dir, '../../node_modules/.cache')

/** Why no package can be installed; null where it can. */
export const whyNoPython =
  Bun.spawnSync(['sh', '-c', 'python3 -c "import ensurepip"']).exitCode === 0
    ? null
    : 'python3 or the package python3-venv is missing'

/** The path of a Python with these packages, installed once for each checkout; or why there is none. */
export async function findPython(...requirements: string[]): Promise<{ path: string } | { reason: string }> {
  if (whyNoPython !== null) return { reason: whyNoPython }
  const packages = requirements.length > 0 ? requirements : [kintoHttp]
  const folder = join(cache, `python-${packages.join('-').replaceAll('==', '-')}`)
  const path = join(folder, 'bin/python')
  if (existsSync(path)) return { path }
  // Made aside and put in place whole, so that a broken installation is never found by the next run.
  mkdirSync(cache, { recursive: true })
  const draft = mkdtempSync(join(cache, 'python-'))
  try {
    const options = ['--quiet', '--disable-pip-version-check']
    const steps = [
      ['python3', '-m', 'venv', draft],
      [join(draft, 'bin/python'), '-m', 'pip', 'install', ...options, ...packages],
    ]
    for (const step of steps) {
      const child = Bun.spawn(step, { stdout: 'ignore', stderr: 'pipe', timeout: 120_000 })
      const [errors, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
      if (code !== 0) return { reason: `"${step.slice(1).join(' ')}" failed: ${lastLine(errors)}` }
    }
    renameSync(draft, folder)
    return { path }
  } catch (error) {
    return { reason: String(error) }
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? ''
}

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

export const kintoHttp = 'kinto-http==11.11.0'
/** The last but one major version, which sends a body of `{}` with every GET and HEAD. */
export const olderKintoHttp = 'kinto-http==10.9.0'

// In the checkout: a name in a folder that all users share could belong to somebody else.
const cache = join(import.meta.dir, '../../node_modules/.cache')

/** The path of a Python with the package, installed once for each checkout; or why there is none. */
export async function findPython(requirement = kintoHttp): Promise<{ path: string } | { reason: string }> {
  const system = Bun.which('python3')
  if (!system) return { reason: 'there is no python3 in PATH' }
  const folder = join(cache, `python-${requirement.replace('==', '-')}`)
  const path = join(folder, 'bin/python')
  if (existsSync(path)) return { path }
  // Made aside and put in place whole, so that a broken installation is never found by the next run.
  mkdirSync(cache, { recursive: true })
  const draft = mkdtempSync(join(cache, 'python-'))
  try {
    const options = ['--quiet', '--disable-pip-version-check']
    const steps = [
      [system, '-m', 'venv', draft],
      [join(draft, 'bin/python'), '-m', 'pip', 'install', ...options, requirement],
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

import { cpus, totalmem } from 'node:os'

const packages: Record<string, string> = {
  wrk: 'wrk',
  nginx: 'nginx-light',
  curl: 'curl',
  'redis-server': 'redis-server',
  taskset: 'util-linux',
  chrt: 'util-linux',
}

/** Installs missing programs that the measurements need; requires Debian and root. */
export async function installTools(): Promise<void> {
  const missing = Object.keys(packages).filter((program) => Bun.which(program) === null)
  if (missing.length === 0) return
  const names = missing.map((program) => packages[program]!)
  process.stdout.write(`Installing ${names.join(', ')} ...\n`)
  const install = Bun.$`apt-get update -q && apt-get install -qy --no-install-recommends ${names}`
  const { exitCode, stderr } = await install.quiet().nothrow()
  if (exitCode !== 0) throw new Error(`Cannot install ${names.join(', ')}: ${stderr.toString().trim()}`)
}

/** The machine and the programs behind the results, one line each. */
export async function describeMachine(bridgeExecutable: string): Promise<string[]> {
  const [{ model }] = cpus() as [ReturnType<typeof cpus>[number]]
  const gigabytes = Math.round(totalmem() / 2 ** 30)
  const first = async (command: string[]) => {
    const { stdout, stderr } = await Bun.$`${command}`.quiet().nothrow()
    return `${stdout}${stderr}`.trim().split('\n')[0]!
  }
  return [
    `${cpus().length} × ${model.trim()}, ${gigabytes} GB, Linux ${await first(['uname', '-r'])}`,
    await first([bridgeExecutable, '--version']),
    `Bun ${Bun.version}`,
    (await first(['nginx', '-v'])).replace('nginx version: ', ''),
    (await first(['wrk', '-v'])).replace(/ Copyright.*/, ''),
  ]
}

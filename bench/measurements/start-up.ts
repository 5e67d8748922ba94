import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { cores, familyOf, freePort, residentMegabytes, start, stop } from '../processes.ts'
import { interleave, median, ratio } from '../statistics.ts'
import { bridgeEnvironment } from '../subjects.ts'

export interface StartUp {
  name: string
  ms: number
  idleMegabytes: number
  msRatio: number
  megabytesRatio: number
}

/**
 * From starting the process to its first answer, and its memory a second later: a server that does nothing, the
 * framework with two routes, one record written straight, and ours. All are copies made now, because how much of an executable
 * is resident depends on how it came into the system's cache: of one file that is 37 or 41 MB.
 */
export async function measureStartUp(
  executables: { bare: string; framework: string; straight: string; bridge: string },
  rounds: number,
  folder: string,
): Promise<StartUp[]> {
  const copyOf = (executable: string, name: string) => {
    const copy = join(folder, `start-${name}`)
    copyFileSync(executable, copy)
    return copy
  }
  const peer = (name: string, executable: string) => ({
    name,
    command: [executable],
    path: '/',
    environment: (port: number) => ({ PORT: `${port}` }),
  })
  const bare = copyOf(executables.bare, 'bare')
  const framework = copyOf(executables.framework, 'framework')
  const straight = copyOf(executables.straight, 'straight')
  const bridge = copyOf(executables.bridge, 'bridge')
  const subjects = [
    peer('bare Bun.serve', bare),
    peer('framework alone', framework),
    peer('straight', straight),
    {
      name: 'Sync Bridge',
      command: [bridge, 'serve'],
      path: '/v1/__lbheartbeat__',
      environment: (port: number) => bridgeEnvironment(port, 'http://127.0.0.1:9'),
    },
  ]
  const figures = await interleave(subjects, rounds, async ({ command, path, environment }) => {
    const port = freePort()
    const startedAtMs = performance.now()
    const subprocess = start(command, { core: cores.measured, environment: environment(port) })
    await firstAnswer(`http://127.0.0.1:${port}${path}`)
    const ms = performance.now() - startedAtMs
    await Bun.sleep(1000)
    const megabytes = residentMegabytes(familyOf(subprocess.pid))
    await stop(subprocess)
    return { ms, megabytes }
  })
  const [bareFigures] = figures
  return subjects.map(({ name }, index) => {
    const own = figures[index]!
    const pick = (key: 'ms' | 'megabytes') => own.map((figure) => figure[key])
    return {
      name,
      ms: median(pick('ms')),
      idleMegabytes: median(pick('megabytes')),
      msRatio: ratio(
        pick('ms'),
        bareFigures!.map(({ ms }) => ms),
      ),
      megabytesRatio: ratio(
        pick('megabytes'),
        bareFigures!.map(({ megabytes }) => megabytes),
      ),
    }
  })
}

/** Resolves once something answers there, whatever it answers. */
export async function firstAnswer(url: string): Promise<void> {
  for (;;) {
    try {
      // A port of which nobody listens yet can be connected to itself, which then never answers.
      await fetch(url, { signal: AbortSignal.timeout(1000) })
      return
    } catch {
      await Bun.sleep(0)
    }
  }
}

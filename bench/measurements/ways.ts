import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { cores, start } from '../processes.ts'

/** How many files of `src` run code for one more request of a kind. */
export interface Way {
  name: string
  files: number
}

const root = join(import.meta.dir, '../..')
const turns = { few: 20, many: 60 }

/** Which lines run more often when more is asked is told by line coverage. */
export async function measureWays(folder: string): Promise<Way[]> {
  const ways: Way[] = []
  for (const name of ['GET', 'list', 'PUT', 'batch']) {
    const [few, many] = await Promise.all([count(name, turns.few, folder), count(name, turns.many, folder)])
    const added = turns.many - turns.few
    const files = [...many].filter(([file, lines]) => {
      const before = few.get(file)
      return [...lines].some(([line, times]) => times - (before?.get(line) ?? 0) >= added)
    })
    ways.push({ name, files: files.length })
  }
  return ways
}

/** How often each line of each file ran. */
async function count(way: string, asked: number, folder: string): Promise<Map<string, Map<string, number>>> {
  const output = join(folder, `coverage-${way}-${asked}`)
  const options = ['--coverage', '--coverage-reporter=lcov', `--coverage-dir=${output}`]
  const test = start([process.execPath, 'test', ...options, './bench/way.ts'], {
    core: cores.both,
    environment: { WAY: way, TURNS: String(asked) },
    cwd: root,
  })
  if ((await test.exited) !== 0) throw new Error(`Cannot count the files of ${way}`)
  const files = new Map<string, Map<string, number>>()
  let lines = new Map<string, number>()
  for (const entry of readFileSync(join(output, 'lcov.info'), 'utf8').split('\n')) {
    if (entry.startsWith('SF:')) {
      const file = entry.slice(3)
      lines = new Map()
      if (file.startsWith('src/') && !file.startsWith('src/sandbox/')) files.set(file, lines)
    } else if (entry.startsWith('DA:')) {
      const [line, times] = entry.slice(3).split(',')
      lines.set(line!, Number(times))
    }
  }
  return files
}

/** Lines of `src` without the sandbox, the explorer and the page of the documentation. */
export function countLines(): number {
  const folder = join(root, 'src')
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const ours = names.filter((name) => name.endsWith('.ts') && !/^(sandbox|explorer|docs)\//.test(name))
  return ours.reduce((sum, name) => sum + readFileSync(join(folder, name), 'utf8').split('\n').length - 1, 0)
}

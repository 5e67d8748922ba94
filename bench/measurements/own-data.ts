import { readFileSync, writeFileSync } from 'node:fs'
import { cores, peakMegabytes, start } from '../processes.ts'

/** A person's own commands over many records: the peak memory of each, its own bridge included. */
export interface OwnData {
  records: number
  commands: { name: string; peakMegabytes: number; seconds: number }[]
}

/**
 * Backs up, exports and restores an account with that many history records of 800 bytes, without a running bridge: `restore` writes into an
 * empty account, and the second one finds nothing to write.
 */
export async function measureOwnData(executable: string, folder: string, records: number): Promise<OwnData> {
  const sandbox = async (options: string[]) => {
    const ports = ['--port', '0', '--token-port', '0', '--storage-port', '0']
    const process = start([executable, 'sandbox', ...options, ...ports], { core: cores.both, stdout: 'pipe' })
    return { process, account: await accountOf(process.stdout as ReadableStream<Uint8Array>) }
  }
  const full = await sandbox(['--seed', `history=${records}`])
  const empty = await sandbox(['--empty'])
  const backups = `${folder}/backups`
  const run = async (name: string, account: string, words: string[]) => {
    const startedMs = performance.now()
    const command = Bun.spawn([executable, ...words, '--account', account], {
      env: { PATH: process.env.PATH ?? '', HOME: folder },
      stdout: 'ignore',
      stderr: 'ignore',
    })
    // Not the figure at its end, which begins with the peak of this process.
    let peak = 0
    while (command.exitCode === null && command.signalCode === null) {
      peak = readPeak(command.pid) ?? peak
      await Bun.sleep(20)
    }
    const code = await command.exited
    if (code !== 0) throw new Error(`${name} ended with ${code}`)
    const seconds = (performance.now() - startedMs) / 1000
    return { name, seconds, peakMegabytes: peak }
  }
  const restore = ['restore', backups, '--key', full.account, '--write']
  try {
    return {
      records,
      commands: [
        await run('backup', full.account, ['backup', backups]),
        await run('export everything', full.account, [
          'export',
          'everything',
          '--output',
          `${folder}/all.json`,
        ]),
        await run('restore into an empty account', empty.account, restore),
        await run('restore that finds nothing to write', empty.account, restore),
      ],
    }
  } finally {
    for (const { process } of [full, empty]) process.kill('SIGTERM')
  }
}

/** Null once the process has ended. */
function readPeak(pid: number): number | null {
  try {
    return peakMegabytes([pid])
  } catch {
    return null
  }
}

/** Reads the line that names the account file of a sandbox, and removes its bridge, so that each command starts its own. */
async function accountOf(output: ReadableStream<Uint8Array>): Promise<string> {
  let text = ''
  for await (const part of output.pipeThrough(new TextDecoderStream() as never) as AsyncIterable<string>) {
    text += part
    const [, path] = /^ {2}\. (\S+)$/m.exec(text) ?? []
    if (path) {
      writeFileSync(path, readFileSync(path, 'utf8').replace(/^.*BRIDGE_URL=.*\n/m, ''))
      return path
    }
  }
  throw new Error('The sandbox has not named its account file')
}

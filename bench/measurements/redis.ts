import { RedisClient } from 'bun'
import { load, type LoadOptions } from '../load.ts'
import { cores, freePort, start, stop } from '../processes.ts'
import { startBridge } from '../subjects.ts'

/** The Redis commands that one unknown user causes. */
export interface RedisCost {
  bytes: number
  commands: number
}

/** Sends each request as a new user, whose credentials go to Redis; none are evicted during the run. */
export async function measureRedis(
  executable: string,
  tokenServerUrl: string,
  options: LoadOptions,
): Promise<RedisCost> {
  const port = freePort()
  const redis = start(['redis-server', '--port', String(port), '--save', '', '--bind', '127.0.0.1'], {
    core: cores.load,
  })
  const settings = { cache_backend: 'redis', cache_url: `redis://127.0.0.1:${port}/0` }
  const bridge = await startBridge(executable, tokenServerUrl, { settings })
  const client = new RedisClient(`redis://127.0.0.1:${port}`)
  const figures = async () => {
    const info = String(await client.send('INFO', ['everything']))
    const figure = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)![1])
    return { bytes: figure('used_memory'), commands: figure('total_commands_processed') }
  }
  const before = await figures()
  const { requests } = await load({ ...bridge.of('record'), users: 'each' }, options)
  const after = await figures()
  client.close()
  await Promise.all([bridge.process, redis].map(stop))
  return {
    bytes: (after.bytes - before.bytes) / requests,
    commands: (after.commands - before.commands) / requests,
  }
}

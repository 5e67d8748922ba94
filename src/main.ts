import { processHost } from './cli/host.ts'
import { run } from './cli/run.ts'

const host = processHost()
const code = await run(process.argv.slice(2), host)
await host.drain(1000)
process.exit(code)

/**
 * The sandbox's storage in its own process, with that many ms before each response (default: 20) and that many users (default: 1); prints
 * how to reach it.
 */
import { startSandbox } from '../src/sandbox/sandbox.ts'

const [latencyMs = '20', count = '1'] = process.argv.slice(2)
const sandbox = await startSandbox({ latencyMs: Number(latencyMs) })
const users = Array.from({ length: Number(count) }, (_, index) => {
  const user = sandbox.addUser(`somebody-${index}`)
  const { clientState, keyId, uid } = user
  return { clientState, keyId, uid, authorization: `Bearer ${user.bearerToken()}` }
})
const { tokenServerUrl, storageUrl } = sandbox
await Bun.write(Bun.stdout, `${JSON.stringify({ tokenServerUrl, storageUrl, ...users[0], users })}\n`)

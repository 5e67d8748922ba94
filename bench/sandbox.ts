/** The storage of the sandbox in a process of its own, with 20 ms before each answer; prints how to reach it. */
import { startSandbox } from '../src/sandbox/sandbox.ts'

const sandbox = await startSandbox({ latencyMs: 20 })
const user = sandbox.addUser('somebody')
const { clientState, keyId, uid } = user
const { tokenServerUrl, storageUrl } = sandbox
const authorization = `Bearer ${user.bearerToken()}`
await Bun.write(
  Bun.stdout,
  `${JSON.stringify({ tokenServerUrl, storageUrl, clientState, keyId, uid, authorization })}\n`,
)

import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { accountsOf, upload } from '../../client/world.ts'
import { endAll } from '../../support/executable.ts'
import { startSandbox } from '../../support/sandbox.ts'
import { accountFile, valuesOf } from './world.ts'
import type { ClearRecord } from '../../../src/client/crypto.ts'
import type { SandboxUser } from '../../../src/sandbox/sandbox-user.ts'

/** A storage, and people with a little data and an account file. A server, because each command starts a bridge that calls it. */
export async function startPeople() {
  const sandbox = await startSandbox()

  function someone(name: string) {
    const user = sandbox.addUser(name)
    fillSampleData(sandbox, user, { bookmarks: 20, history: 3 })
    return { user, account: accountFile(valuesOf(sandbox, user)) }
  }

  return {
    sandbox,
    someone,
    /** Writes bookmarks as this user's Firefox. */
    write: (user: SandboxUser, ...clear: ClearRecord[]) => upload({ sandbox, user }, 'bookmarks', ...clear),
    async stop() {
      await sandbox.stop()
      endAll()
    },
  }
}

/** The same, and a user whose token an account server renews. */
export async function startRenewable() {
  const people = await startPeople()
  const { sandbox } = people
  const { user } = people.someone('renewing')
  const accounts = accountsOf(user)
  return {
    ...people,
    accounts,
    renewing: user,
    /** The values of that account, with a token that has expired. */
    renewable: (more: Record<string, string> = {}): Record<string, string> => ({
      ...valuesOf(sandbox, user),
      BEARER_TOKEN: user.bearerToken({ expiresInSeconds: -3600 }),
      REFRESH_TOKEN: accounts.grantRefreshToken(),
      TOKEN_ENDPOINT: `${accounts.url}/v1/oauth/token`,
      CLIENT_ID: '5882386c6d801776',
      ...more,
    }),
    async stop() {
      await accounts.stop()
      await people.stop()
    },
  }
}

import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { startExecutable, type Executable, type ExecutableOptions } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { currentVersion, Device, type DeviceOptions, type KintoVersion } from './offline.ts'
import { FakeFirefox } from './sealed.ts'

const writable = ['bookmarks', 'passwords', 'tabs']

/** The executable, and users with accounts. */
export interface World extends Executable {
  /** In front of the storage. */
  storage: FaultProxy
  /** A new user with empty collections. */
  person(): Person
  /** A new user, and a device that has synced what Firefox has written: titles by id. */
  synced(titles: Record<string, string>, version?: KintoVersion): Promise<Person & { phone: Device }>
}

export interface Person {
  user: SandboxUser
  bucket: string
  /** The user's identity towards the service. */
  headers: Record<string, string>
  firefox: FakeFirefox
  device(options?: Partial<DeviceOptions>): Device
}

/** Starts the executable with three writable collections. Published clients use it, and they only know servers. */
export async function startWorld(options: ExecutableOptions = {}): Promise<World> {
  const executable = await startExecutable({ writable, ...options })
  const { sandbox, url } = executable
  const storage = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = storage.url
  let people = 0
  function person(): Person {
    const user = sandbox.addUser(`person ${++people}`)
    const headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }
    const bucket = user.clientState
    return {
      user,
      bucket,
      headers,
      firefox: new FakeFirefox(sandbox, user),
      device: (more) => new Device({ url, bucket, headers, ...more }),
    }
  }
  return {
    ...executable,
    storage,
    async stop() {
      await storage.stop()
      return executable.stop()
    },
    person,
    async synced(titles, version = currentVersion) {
      const owner = person()
      const phone = owner.device({ version })
      for (const [id, title] of Object.entries(titles)) owner.firefox.write(id, title)
      await phone.sync()
      return { ...owner, phone }
    },
  }
}

import { startExecutable } from '../support/executable.ts'
import type { Executable, ExecutableOptions } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { Device } from './offline.ts'
import type { DeviceOptions } from './offline.ts'
import { FakeFirefox } from './sealed.ts'

export const writable = ['bookmarks', 'passwords', 'tabs']

/** The executable, and people with accounts. */
export interface World extends Executable {
  /** Somebody new, with empty collections. */
  person(): Person
}

export interface Person {
  user: SandboxUser
  bucket: string
  /** By which the service knows the person. */
  headers: Record<string, string>
  firefox: FakeFirefox
  device(options?: Partial<DeviceOptions>): Device
}

/** Starts the executable with three collections that can be written to. */
export async function startWorld(options: ExecutableOptions = {}): Promise<World> {
  const executable = await startExecutable({ writable, ...options })
  const { sandbox, url } = executable
  let people = 0
  return {
    ...executable,
    person() {
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
    },
  }
}

import { describe, expect, it } from 'bun:test'

import { resetRisk } from '../../../src/cli/service/linux.ts'
import { fakeHost } from '../fake-host.ts'

describe('resetRisk', () => {
  const file = '/proc/sys/net/ipv4/tcp_migrate_req'

  it('is null if the kernel moves waiting connections', () => {
    expect(resetRisk(fakeHost({ [file]: '1\n' }).readFile)).toBeNull()
  })

  it("says whether it is off, or can't be read", () => {
    expect(resetRisk(fakeHost({ [file]: '0\n' }).readFile)).toBe('net.ipv4.tcp_migrate_req is off')
    expect(resetRisk(fakeHost().readFile)).toBe('cannot read net.ipv4.tcp_migrate_req')
  })
})

import { describe, expect, it } from 'bun:test'

import { createNotifier, takeoverRisk } from '../../src/cli/linux.ts'
import { eventually } from '../support/eventually.ts'
import { listenForNotifications } from '../system/notify-socket.ts'
import { fakeHost } from './fake-host.ts'

describe('createNotifier', () => {
  it('sends keep-alives only while all processes of the service respond', async () => {
    const address = `@sync-bridge-${crypto.randomUUID()}`
    const manager = listenForNotifications(address)
    const environment = { NOTIFY_SOCKET: address, WATCHDOG_USEC: '10000' }
    let asked = 0
    let isResponsive = false
    const look = () => {
      asked += 1
      return isResponsive
    }

    createNotifier(environment, look, () => {})
    await eventually('it has looked', () => asked >= 3)
    const whileSilent = [...manager.messages]
    isResponsive = true
    await eventually('it tells', () => manager.messages.includes('WATCHDOG=1'))
    manager.close()

    expect(whileSilent).toEqual([])
  })
})

describe('takeoverRisk', () => {
  const file = '/proc/sys/net/ipv4/tcp_migrate_req'

  it('is none where the kernel moves waiting connections', () => {
    expect(takeoverRisk(fakeHost({ [file]: '1\n' }).readFile)).toBeNull()
  })

  it("says whether it is off, or can't be read", () => {
    expect(takeoverRisk(fakeHost({ [file]: '0\n' }).readFile)).toBe('net.ipv4.tcp_migrate_req is off')
    expect(takeoverRisk(fakeHost().readFile)).toBe('cannot read net.ipv4.tcp_migrate_req')
  })
})

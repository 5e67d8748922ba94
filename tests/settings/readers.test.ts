import { describe, expect, it } from 'bun:test'
import { dirname, join } from 'node:path'
import { fileIn, folderOf } from '../../src/settings/readers.ts'

describe('folderOf and fileIn', () => {
  it('find the file beside another one, wherever that is', () => {
    const besides = [
      '/etc/bridge/bridge.ini',
      '/bridge.ini',
      'bridge.ini',
      'etc/bridge.ini',
      '../bridge.ini',
      './a.ini',
    ]

    for (const path of besides) {
      expect(join(fileIn(folderOf(path), 'ca.pem'))).toBe(join(dirname(path), 'ca.pem'))
      expect(join(fileIn(folderOf(path), 'certs/ca.pem'))).toBe(join(dirname(path), 'certs/ca.pem'))
    }
  })

  it('leave an absolute name as it is', () => {
    expect(fileIn('/etc/bridge', '/srv/ca.pem')).toBe('/srv/ca.pem')
  })

  it('name a file in a folder whose name ends with a slash', () => {
    expect(fileIn('/run/credentials/', 'secret')).toBe('/run/credentials/secret')
  })
})

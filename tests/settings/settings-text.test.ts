import { describe, expect, it } from 'bun:test'

import { annotatedIni, maskedSettings } from '../../src/settings/settings-text.ts'

describe('maskedSettings', () => {
  it.each([
    ['redis://127.0.0.1:6379/0', 'redis://127.0.0.1:6379/0'],
    ['redis://user:pa:ss@h/0', 'redis://********@h/0'],
    ['redis://user:p@ss@h/0', 'redis://********@h/0'],
    ['rediss://:pass@h', 'rediss://********@h'],
    ['redis://pass@h', 'redis://********@h'],
    ['unix://u:pass@/run/redis.sock?db=1', 'unix://********@/run/redis.sock?db=1'],
    [
      'rediss+sentinel://h/m?sentinel_password=p&cacert=c',
      'rediss+sentinel://h/m?sentinel_password=********&cacert=c',
    ],
  ])('shows the cache %s without its password', (text, shown) => {
    expect(maskedSettings([{ name: 'cache_url', text, source: 'f:1', secret: false }])).toEqual([
      `service.cache_url = ${shown}  (f:1)`,
    ])
  })

  it('shows of a secret only whether it is set', () => {
    const secret = { name: 'cache_hmac_secret', text: 'abc', source: 'f:1', secret: true }
    const none = { name: 'cache_hmac_secret_previous', text: null, source: 'default', secret: true }

    expect(maskedSettings([secret, none])).toEqual([
      'service.cache_hmac_secret = ********         (f:1)',
      'service.cache_hmac_secret_previous = (none)  (default)',
    ])
  })

  it('keeps every setting on its line', () => {
    const [line] = maskedSettings([
      { name: 'eos_message', text: 'a\u2028b\x1b', source: 'f:1', secret: false },
    ])

    expect(line).toBe('service.eos_message = "a\\u2028b\\u001b"  (f:1)')
  })
})

describe('annotatedIni', () => {
  it('comments out everything except the secret', () => {
    const settings = annotatedIni('5ec7e7')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))

    expect(settings).toEqual(['service.cache_hmac_secret = 5ec7e7'])
  })
})

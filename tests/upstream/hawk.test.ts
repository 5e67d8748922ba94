import { describe, expect, it } from 'bun:test'
import hawk from 'hawk'
import { toEndpoint } from '../../src/domain/credentials.ts'
import { hawkHeader } from '../../src/upstream/request.ts'

const key = 'dSi3EoZyHwgDp-O9OG1jRHtmbGl2M1bwcWsi04C4F58='
const collection = 'http://localhost:5000/storage/1.5/1/storage/col2'

interface Signed {
  address: string
  method?: string
  timestampSeconds?: number
  nonce?: string
}

function sign({
  address,
  method = 'GET',
  timestampSeconds = 1_569_608_439,
  nonce = 'h1Ch4vo=',
}: Signed): string {
  const { pathname, search } = new URL(address)
  const url = { ...toEndpoint(new URL(address)), target: pathname + search }
  return hawkHeader({ hawkId: 'an-id', hawkKey: key }, method, url, timestampSeconds, nonce)
}

describe('hawkHeader', () => {
  it("signs like the storage's own examples", () => {
    const get = sign({ address: collection })
    const post = sign({
      address: `${collection}?batch=MTUzNjE5ODk3NjkyMQ==&commit=true`,
      method: 'POST',
      nonce: '4Rj7c+0=',
    })

    expect(get).toBe(
      'Hawk id="an-id", ts="1569608439", nonce="h1Ch4vo=", mac="UwDpC+DSrHCSTQSfMOWlueB6kM6gHb0Hsv8eU9ZcTVs="',
    )
    expect(post).toContain('mac="E7j1UjN7//mh7pYXsgGi3n0KGR+sUPpuyogDVzJWaHg="')
  })

  it.each([
    ['GET', 'https://Node.Example.COM/1.5/7/info/collections'],
    ['GET', 'http://node.example.com/1.5/7/storage/tabs?full=1&ids=a,b%2Cc&newer=12.30'],
    ['DELETE', 'https://node.example.com:8443/prefix/1.5/7/storage/passwords/%7Babc%7D'],
    ['POST', 'http://127.0.0.1:5000/1.5/7/storage/a%20b?batch=a%3D%2B%2F&commit=true'],
  ])('is accepted by an independent verifier: %s %s', async (method, address) => {
    const url = new URL(address)
    const timestampSeconds = Math.floor(Date.now() / 1000)

    const authorization = sign({ address, method, timestampSeconds, nonce: 'abc123' })

    const request = {
      method,
      url: url.pathname + url.search,
      host: url.hostname,
      port: Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
      authorization,
    }
    const lookUp = async () => ({ id: 'an-id', key, algorithm: 'sha256' as const, user: 'somebody' })
    expect((await hawk.server.authenticate(request, lookUp)).credentials.user).toBe('somebody')
  })
})

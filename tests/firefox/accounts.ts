/** An account server on loopback that knows one account, and hands out one access token whoever asks. Has a page, too. */
export interface Accounts {
  readonly url: string
  /** Method and path of every request so far. */
  readonly requests: readonly string[]
  stop(): Promise<void>
}

/** Answers what a signed-in Firefox asks its account server. The devices are those that it shall know besides itself. */
export function startAccounts(identity: {
  bearerToken: string
  email: string
  devices: { id: string; name: string }[]
}): Accounts {
  const requests: string[] = []
  const devices = identity.devices.map(({ id, name }) => ({
    id,
    name,
    type: 'desktop',
    isCurrentDevice: false,
  }))
  const own = { id: 'ab'.repeat(16), name: 'Firefox under test', type: 'desktop', isCurrentDevice: true }
  const token = { access_token: identity.bearerToken, token_type: 'bearer', expires_in: 3600 }
  const answers: Record<string, unknown> = {
    'POST /v1/oauth/token': token,
    'POST /v1/account/device': own,
    'GET /v1/account/devices': [own, ...devices],
    'GET /v1/account/device/commands': { index: 0, last: true, messages: [] },
    'GET /v1/recovery_email/status': { email: identity.email, verified: true, sessionVerified: true },
    'GET /v1/session/status': { state: 'verified', uid: '' },
    'GET /v1/account/status': { exists: true },
    'GET /v1/account/attached_clients': [],
    'GET /v1/profile': { uid: 'ab'.repeat(16), email: identity.email },
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      const asked = `${request.method} ${new URL(request.url).pathname}`
      requests.push(asked)
      if (asked === 'GET /page')
        return new Response('<title>A page</title>', { headers: { 'Content-Type': 'text/html' } })
      const headers = { Timestamp: String(Math.floor(Date.now() / 1000)) }
      return Response.json(answers[asked] ?? {}, { headers })
    },
  })
  return { url: server.url.origin, requests, stop: () => server.stop(true) }
}

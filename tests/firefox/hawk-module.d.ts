/** The part of the package that the tests use; it has no types. */
declare module 'hawk' {
  interface HawkRequestLine {
    method: string
    url: string
    host: string
    port: number
    authorization: string
    contentType?: string
  }

  interface HawkCredentials {
    id: string
    key: string | Buffer
    algorithm: 'sha256'
    user: string
  }

  const hawk: {
    server: {
      authenticate(
        request: HawkRequestLine,
        lookUp: (id: string) => Promise<HawkCredentials | null>,
        options?: { payload?: string },
      ): Promise<{ credentials: HawkCredentials }>
    }
  }
  export default hawk
}

/** The part of the package that the tests use; it ships no types. */
declare module 'hawk' {
  interface HawkRequestLine {
    method: string
    url: string
    host: string
    port: number
    authorization: string
  }

  interface HawkCredentials {
    id: string
    key: string
    algorithm: 'sha256'
    user: string
  }

  const hawk: {
    server: {
      authenticate(
        request: HawkRequestLine,
        lookUp: (id: string) => Promise<HawkCredentials>,
      ): Promise<{ credentials: HawkCredentials }>
    }
  }
  export default hawk
}

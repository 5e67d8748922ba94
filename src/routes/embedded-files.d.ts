/** Files that the build embeds; their import is the path to read them at. */
declare module 'swagger-ui-dist/*' {
  const path: string
  export default path
}

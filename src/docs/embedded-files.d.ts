/** Files that the build embeds; their import is the path to read them at. */
declare module 'swagger-ui-dist/*' {
  const path: string
  export default path
}

/** Files that are imported as text. */
declare module '*.css' {
  const text: string
  export default text
}
declare module '*.md' {
  const text: string
  export default text
}

declare module '*.png' {
  const path: string
  export default path
}

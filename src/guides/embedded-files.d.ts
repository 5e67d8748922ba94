/** Files that the build embeds; importing one returns its path. */
declare module 'swagger-ui-dist/*' {
  const path: string
  export default path
}

/** Files that are imported as text. */
declare module '*.css' {
  const text: string
  export default text
}
declare module '*.txt' {
  const text: string
  export default text
}

declare module '*.png' {
  const path: string
  export default path
}

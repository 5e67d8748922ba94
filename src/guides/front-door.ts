/** Where to redirect a browser that opens the root URL; null for other clients. */
export function frontDoor(
  accept: string,
  { docsEnabled, explorerEnabled }: { docsEnabled: boolean; explorerEnabled: boolean },
): string | null {
  if (!prefersHtml(accept)) return null
  if (docsEnabled) return '/docs/guides'
  return explorerEnabled ? '/explore' : null
}

/** Whether the client prefers HTML to JSON: programs accept anything, or JSON. See RFC 9110, 12.5.1. */
function prefersHtml(accept: string): boolean {
  const weights = new Map<string, number>()
  for (const range of accept.slice(0, 1000).split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))
    weights.set(type, weight === undefined ? 1 : Number(weight.slice(2)))
  }
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0
  return (weights.get('text/html') ?? 0) > json
}

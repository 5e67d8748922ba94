/** One figure with what is expected of it. */
export interface Target {
  what: string
  figure: number
  bound: 'at least' | 'at most'
  limit: number
  unit: '' | ' MB' | ' ms'
}

export function isMet({ figure, bound, limit }: Target): boolean {
  return bound === 'at least' ? figure >= limit : figure <= limit
}

export function describeFigure({ figure, unit }: Target): string {
  return unit === '' ? figure.toFixed(2) : `${figure.toFixed(1)}${unit}`
}

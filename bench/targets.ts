/** One figure with what is expected of it. */
export interface Target {
  what: string
  /** The figure before requests were declared once and travelled one way; empty where none was taken. */
  was: string
  figure: number
  bound: 'at least' | 'at most'
  limit: number
  unit: '' | ' MB' | ' ms' | ' files' | ' lines'
}

export function isMet({ figure, bound, limit }: Target): boolean {
  return bound === 'at least' ? figure >= limit : figure <= limit
}

export function describeFigure({ figure, unit }: Target): string {
  if (unit === ' files' || unit === ' lines') return `${figure.toLocaleString('en')}${unit}`
  return unit === '' ? figure.toFixed(2) : `${figure.toFixed(1)}${unit}`
}

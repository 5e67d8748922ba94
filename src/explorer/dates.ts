const dayFormat = new Intl.DateTimeFormat(undefined, {
  weekday: 'long',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
})
export const timeFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const agoFormat = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

/** A day: the weekday within the last week, otherwise the date. */
export function dayName(day: number): string {
  const days = Math.round((startOfDay(new Date().getTime()) - day) / 86_400_000)
  const name = dayFormat.format(day)
  if (days > 1 || days < 0) return name
  const word = agoFormat.format(-days, 'day')
  return `${word[0]!.toUpperCase()}${word.slice(1)} · ${name}`
}

/** How long ago a moment was, in words; one in the future counts as now. */
export function ago(moment: number): string {
  const minutes = Math.round((moment - new Date().getTime()) / 60_000)
  if (minutes > -60) return agoFormat.format(Math.min(0, minutes), 'minute')
  if (minutes > -60 * 36) return agoFormat.format(Math.round(minutes / 60), 'hour')
  const days = Math.round(minutes / 1440)
  if (days > -60) return agoFormat.format(days, 'day')
  if (days > -730) return agoFormat.format(Math.round(days / 30.4), 'month')
  return agoFormat.format(Math.round(days / 365), 'year')
}

export function startOfDay(moment: number): number {
  return new Date(moment).setHours(0, 0, 0, 0)
}

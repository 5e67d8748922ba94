/** A row of a bar chart; the marked one is the subject of the chart. */
export interface Bar {
  label: string
  value: number
  text: string
  isMarked?: boolean
}

export interface Series {
  name: string
  points: [x: number, y: number][]
  isMarked?: boolean
}

export interface Axis {
  title: string
  ticks: { at: number; text: string }[]
  /** Maps a value to the axis: 0 is its start, 1 its end. */
  place(value: number): number
}

const ink = '#1f2937'
const faint = '#6b7280'
const line = '#e5e7eb'
const marked = '#e66000'
const others = ['#2563eb', '#0f766e', '#7c3aed', '#94a3b8', '#b45309']
const width = 760

/** Horizontal bars; the longest value takes the full width. */
export function barChart(title: string, subtitle: string, bars: Bar[]): string {
  const left = 230
  const room = width - left - 150
  const largest = Math.max(...bars.map(({ value }) => value))
  const height = 78 + bars.length * 34
  const rows = bars.map(({ label, value, text: figure, isMarked }, index) => {
    const y = 70 + index * 34
    const length = Math.max(2, (room * value) / largest)
    return [
      text(left - 12, y + 16, label, { anchor: 'end', bold: isMarked }),
      `<rect x="${left}" y="${y}" width="${length.toFixed(1)}" height="22" rx="3" fill="${isMarked ? marked : '#cbd5e1'}"/>`,
      text(left + length + 8, y + 16, figure, { bold: isMarked }),
    ].join('')
  })
  return svg(height, title, subtitle, rows.join('\n'))
}

/** Lines over two axes. */
export function lineChart(title: string, subtitle: string, x: Axis, y: Axis, series: Series[]): string {
  const plot = { left: 70, top: 100, width: width - 70 - 30, height: 250 }
  const atX = (value: number) => plot.left + x.place(value) * plot.width
  const atY = (value: number) => plot.top + plot.height - y.place(value) * plot.height
  const grid = [
    ...y.ticks.map(({ at, text: label }) => {
      const height = atY(at)
      return `<line x1="${plot.left}" x2="${plot.left + plot.width}" y1="${height}" y2="${height}" stroke="${line}"/>${text(plot.left - 8, height + 4, label, { anchor: 'end', small: true })}`
    }),
    ...x.ticks.map(({ at, text: label }) =>
      text(atX(at), plot.top + plot.height + 18, label, { anchor: 'middle', small: true }),
    ),
    text(plot.left + plot.width / 2, plot.top + plot.height + 40, x.title, { anchor: 'middle', small: true }),
    text(plot.left - 50, plot.top - 12, y.title, { small: true }),
  ]
  const colours = series.map(({ isMarked }, index) => (isMarked ? marked : others[index % others.length]!))
  const curves = series.map(({ points, isMarked }, index) => {
    const path = points.map(([px, py]) => `${atX(px).toFixed(1)},${atY(py).toFixed(1)}`).join(' ')
    return `<polyline points="${path}" fill="none" stroke="${colours[index]}" stroke-width="${isMarked ? 3 : 2}" stroke-linejoin="round"/>`
  })
  let legendX = plot.left
  const legend = series.map(({ name }, index) => {
    const entry = `<rect x="${legendX}" y="60" width="14" height="4" rx="2" fill="${colours[index]}"/>${text(legendX + 20, 66, name, { small: true })}`
    legendX += 44 + name.length * 7
    return entry
  })
  return svg(plot.top + plot.height + 56, title, subtitle, [...grid, ...legend, ...curves].join('\n'))
}

/** From zero to a little more than the largest value, with round numbers as ticks. */
export function linearAxis(title: string, largest: number, unit: (value: number) => string = String): Axis {
  const magnitude = 10 ** Math.floor(Math.log10(largest))
  const step = [0.2, 0.5, 1, 2, 5].map((factor) => factor * magnitude).find((size) => largest / size <= 6)!
  const end = Math.ceil((largest * 1.02) / step) * step
  const count = Math.round(end / step)
  const ticks = Array.from({ length: count + 1 }, (_, index) => {
    const at = Number((index * step).toPrecision(12))
    return { at, text: unit(at) }
  })
  return { title, ticks, place: (value) => value / end }
}

/** Percentiles, stretched towards 100 to separate the slowest responses. */
export function percentileAxis(title: string, percentiles: number[], shown: number[]): Axis {
  const stretch = (value: number) => -Math.log10(1 - value / 100)
  const [first, last] = [stretch(percentiles[0]!), stretch(percentiles.at(-1)!)]
  return {
    title,
    ticks: shown.map((at) => ({ at, text: String(at) })),
    place: (value) => (stretch(value) - first) / (last - first),
  }
}

function svg(height: number, title: string, subtitle: string, content: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escape(title)}" font-family="system-ui, sans-serif">
<rect width="${width}" height="${height}" rx="8" fill="#ffffff"/>
${text(20, 30, title, { bold: true })}
${text(20, 48, subtitle, { small: true })}
${content}
</svg>
`
}

interface TextStyle {
  anchor?: 'end' | 'middle'
  bold?: boolean
  small?: boolean
}

function text(x: number, y: number, content: string, { anchor, bold, small }: TextStyle = {}): string {
  const anchored = anchor ? ` text-anchor="${anchor}"` : ''
  const weight = bold ? ' font-weight="600"' : ''
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" font-size="${small ? 12 : 14}" fill="${small ? faint : ink}"${anchored}${weight}>${escape(content)}</text>`
}

function escape(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}

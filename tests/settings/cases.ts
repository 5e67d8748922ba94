/** Reads a table of settings: each case has some lines and, indented, the messages about them. */
export function casesOf(table: string): [lines: string[], message: string][] {
  const cases: [string[], string][] = []
  let lines: string[] = []
  for (const line of table.split('\n')) {
    if (line.startsWith('  ')) {
      cases.push([lines, line.trim()])
      lines = []
    } else if (line !== '') lines.push(line)
  }
  return cases
}

/**
 * Rejects code whose time grows faster than its input: regular expressions that backtrack or restart super-linearly, and nested searches in
 * lists. Run: bun .ci/lint-costs.ts FOLDER …
 */
import { Glob } from 'bun'
import { parse } from 'acorn'
import { isDisjointWith, JS, NFA } from 'refa'
import { analyse } from 'scslre'

/** A super-linear construct, and its place. */
interface Finding {
  line: number
  message: string
}

interface Node {
  type: string
  [member: string]: unknown
}

/** The super-linear constructs in a TypeScript source. */
export function findings(source: string): Finding[] {
  const found: Finding[] = []
  // A macro would run here, but from another folder than its own.
  const plain = source.replaceAll(/ with \{ type: 'macro' \}/g, '')
  const program = parse(new Bun.Transpiler({ loader: 'ts' }).transformSync(plain), {
    ecmaVersion: 'latest',
    sourceType: 'module',
  }) as unknown as Node
  // Transpiled code has other lines, so a finding gets the line where its text first occurs in the source.
  const report = (text: string, message: string) => {
    const at = source.indexOf(text)
    found.push({ line: source.slice(0, Math.max(0, at)).split('\n').length, message })
  }
  walk(program, [], (node, loops) => {
    const expression = expressionOf(node)
    if (expression) {
      const reason = reasonAgainst(expression.source, expression.flags)
      if (reason) report(expression.source, `/${expression.source}/${expression.flags} ${reason}`)
    }
    const list = searchedList(node, loops)
    if (list)
      report(list, `${list}(…) for each element of something else is quadratic: make a Set of it first`)
  })
  return found
}

/** A regular expression: a literal, the argument of RegExp, or the `pattern` of a schema. */
function expressionOf(node: Node): { source: string; flags: string } | null {
  if (node.type === 'Literal' && node.regex) return regexOf(node.regex as { pattern: string; flags: string })
  if (node.type === 'NewExpression' && nameOf(node.callee) === 'RegExp') {
    const [source, flags] = (node.arguments as Node[]).map(textOf)
    return source === undefined || source === null ? null : { source, flags: flags ?? '' }
  }
  if (node.type === 'Property' && nameOf(node.key) === 'pattern') {
    const source = textOf(node.value as Node)
    return source === null ? null : { source, flags: 'u' }
  }
  return null
}

function regexOf({ pattern, flags }: { pattern: string; flags: string }) {
  return { source: pattern, flags }
}

/** The text of a literal; null if it is only known at run time. */
function textOf(node: Node): string | null {
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value
  if (node.type !== 'TemplateLiteral') return null
  const quasis = node.quasis as { value: { cooked: string } }[]
  return quasis.length === 1 ? quasis[0]!.value.cooked : null
}

function reasonAgainst(source: string, flags: string): string | null {
  try {
    const [report] = analyse({ source, flags }, { maxReports: 1 }).reports
    if (report) {
      return `is ${report.exponential ? 'exponential' : 'quadratic'}: on a text of ${JSON.stringify(report.character.pick)}`
    }
    return isAmbiguous(source, flags) ? 'is exponential: a loop has two alternatives for the same text' : null
  } catch {
    return 'can not be read'
  }
}

/** Whether an endless loop can match a text by two of its alternatives, which the analysis does not check. */
function isAmbiguous(source: string, flags: string): boolean {
  const parser = JS.Parser.fromLiteral({ source, flags })
  const toNfa = (element: JS.ParsableElement) => {
    const { expression, maxCharacter } = parser.parseElement(element, {
      assertions: 'unknown',
      backreferences: 'unknown',
    })
    return NFA.fromRegex(expression, { maxCharacter }, { assertions: 'disable', unknowns: 'disable' })
  }
  const loops: { alternatives: JS.ParsableElement[]; loop: JS.ParsableElement }[] = []
  const collect = (node: unknown) => {
    if (!isNode(node)) return
    const { type, max, element } = node as unknown as { type: string; max?: number; element?: Node }
    if (type === 'Quantifier' && max === Infinity && element?.alternatives) {
      const alternatives = element.alternatives as JS.ParsableElement[]
      if (alternatives.length > 1) loops.push({ alternatives, loop: node as unknown as JS.ParsableElement })
    }
    for (const [member, value] of Object.entries(node)) {
      if (member !== 'parent' && member !== 'references' && member !== 'resolved')
        [value].flat().forEach(collect)
    }
  }
  collect(parser.ast.pattern)
  return loops.some(({ alternatives, loop }) => {
    const ways = alternatives.map((alternative) => {
      const way = toNfa(alternative)
      way.append(toNfa(loop))
      return way
    })
    return ways.some((way, at) => ways.slice(at + 1).some((other) => !isDisjointWith(way, other)))
  })
}

const callbacks = new Set(
  'map filter forEach some every find findIndex findLast flatMap reduce sort toSorted replace replaceAll'.split(
    ' ',
  ),
)
const loopTypes = new Set([
  'ForStatement',
  'ForOfStatement',
  'ForInStatement',
  'WhileStatement',
  'DoWhileStatement',
])

/** A loop, or a callback that is called for each element, and the names declared inside. */
interface Loop {
  names: Set<string>
}

/** `list.includes` inside a loop, for a list from outside and a value from inside, or null. */
function searchedList(node: Node, loops: Loop[]): string | null {
  if (node.type !== 'CallExpression' || loops.length === 0) return null
  const callee = node.callee as Node
  const method = callee.type === 'MemberExpression' ? nameOf(callee.property) : null
  if (method !== 'includes' && method !== 'indexOf') return null
  const [wanted, from] = node.arguments as Node[]
  // Searching for a constant in a text or a short list is cheap; searches from a position pass through a text once.
  if (!wanted || from || textOf(wanted) !== null || wanted.type === 'Literal') return null
  const list = pathOf(callee.object as Node)
  if (list === null || /^[A-Z]/.test(list)) return null
  const root = list.split('.')[0]!
  return loops.some(({ names }) => names.has(root)) ? null : `${list}.${method}`
}

function pathOf(node: Node): string | null {
  if (node.type === 'Identifier') return node.name as string
  if (node.type === 'ThisExpression') return 'this'
  if (node.type !== 'MemberExpression' || node.computed) return null
  const object = pathOf(node.object as Node)
  const property = nameOf(node.property)
  return object === null || property === null ? null : `${object}.${property}`
}

function nameOf(node: unknown): string | null {
  const { type, name } = node as Node
  return type === 'Identifier' || type === 'PrivateIdentifier' ? (name as string) : null
}

function walk(
  node: Node,
  loops: Loop[],
  visit: (node: Node, loops: Loop[]) => void,
  isCallback = false,
): void {
  visit(node, loops)
  const isFunction = /Function/.test(node.type)
  const inner =
    loopTypes.has(node.type) || isCallback ? [...loops, { names: namesIn(node) }] : isFunction ? [] : loops
  const callee = node.type === 'CallExpression' ? (node.callee as Node) : null
  const calls = callee?.type === 'MemberExpression' && callbacks.has(nameOf(callee.property) ?? '')
  for (const [member, value] of Object.entries(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (!isNode(child)) continue
      const isCalled = calls && member === 'arguments' && /Function/.test(child.type)
      walk(child, inner, visit, isCalled)
    }
  }
}

/** All names that are declared in a piece of code, including its parameters. */
function namesIn(node: Node, names = new Set<string>()): Set<string> {
  for (const parameter of (node.params as Node[] | undefined) ?? []) identifiersIn(parameter, names)
  if (node.type === 'VariableDeclarator') identifiersIn(node.id as Node, names)
  for (const child of childrenOf(node)) namesIn(child, names)
  return names
}

function identifiersIn(pattern: Node, names: Set<string>): void {
  if (pattern.type === 'Identifier') names.add(pattern.name as string)
  for (const child of childrenOf(pattern)) identifiersIn(child, names)
}

function childrenOf(node: Node): Node[] {
  return Object.values(node).flat().filter(isNode)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'
}

if (import.meta.main) {
  let count = 0
  for (const folder of process.argv.slice(2)) {
    for (const path of [...new Glob('**/*.ts').scanSync(folder)].toSorted()) {
      if (path.endsWith('.d.ts')) continue
      for (const { line, message } of findings(await Bun.file(`${folder}/${path}`).text())) {
        console.error(`${folder}/${path}:${line}: ${message}`)
        count += 1
      }
    }
  }
  process.exit(count === 0 ? 0 : 1)
}

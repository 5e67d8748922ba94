import { Glob } from 'bun'
import { describe, expect, it } from 'bun:test'
import { dirname, join, normalize } from 'node:path'
import { logEvents } from '../src/observability/log-events.ts'
import { ListQuery } from '../src/protocol/schemas.ts'
import { settingsSchema } from '../src/settings/schema.ts'

const source = join(import.meta.dir, '../src')

// The allowed imports of each folder. A file directly in src is its own folder, named after itself.
const allowed: Record<string, string[]> = {
  domain: [],
  sandbox: [],
  'version.ts': [],
  // The names and values of settings are defined once; only their types are used.
  protocol: ['domain', 'settings'],
  load: ['domain'],
  upstream: ['domain', 'load'],
  credentials: ['domain'],
  batch: ['domain'],
  observability: ['domain'],
  // The grammar of Redis addresses belongs to the code that connects.
  settings: ['domain', 'observability', 'credentials'],
  client: [],
  explorer: ['client'],
  guides: ['explorer', 'client'],
  routes: ['domain', 'observability', 'settings', 'protocol', 'load', 'explorer', 'guides'],
  'app.ts': ['routes', 'protocol', 'load'],
  service: [
    'app.ts',
    'version.ts',
    'domain',
    'protocol',
    'routes',
    'batch',
    'load',
    'upstream',
    'credentials',
    'settings',
    'observability',
  ],
  cli: ['service', 'client', 'guides', 'version.ts', 'domain', 'settings', 'observability', 'sandbox'],
  'main.ts': ['cli'],
}

// A single entry point for each external resource: only these files may import or call it.
const entryPoints: { what: RegExp; where: RegExp }[] = [
  { what: /from 'elysia'|from '@elysiajs\//, where: /^(app\.ts|routes\/)/ },
  // Their options keep the runtime's development mode off.
  { what: /\bBun\.serve\(/, where: /^(cli\/listener|sandbox\/http)\.ts$/ },
  { what: /from 'redis'/, where: /^credentials\/redis-client\.ts$/ },
  {
    what: /(await|return|=>|=) fetch\(/,
    where:
      /^(upstream\/transport\.ts$|client\/|guides\/|explorer\/own-page\.ts$|cli\/(?:service\/(?:healthcheck|check)|data\/session)\.ts$)/,
  },
  // Records are decrypted in one place. The cache only opens what it has sealed, with its own keys.
  { what: /\bcrypto\.subtle\b|\bcreateDecipheriv\b/, where: /^(client\/crypto|credentials\/seal)\.ts$/ },
  // The sandbox encrypts its sample data like a device.
  { what: /\bcreateCipheriv\b/, where: /^(sandbox\/crypto|credentials\/seal)\.ts$/ },
  { what: /\bprocess\.(?!hrtime)/, where: /^(main\.ts|cli\/|guides\/bundles\.ts$)/ },
  // Macros run when the executable is built.
  { what: /from 'node:fs'/, where: /^(cli\/|guides\/(documents|bundles)\.ts$)/ },
  { what: /\bDate\.now\b/, where: /^(cli|client|service|sandbox)\// },
  { what: /\bMath\.random\b/, where: /^(cli|service)\// },
]

const files = [...new Glob('**/*.ts').scanSync(source)].filter((file) => !file.endsWith('.d.ts')).toSorted()
const texts = new Map(
  await Promise.all(files.map(async (file) => [file, await Bun.file(join(source, file)).text()] as const)),
)

describe('the dependency rule', () => {
  it('holds for every import in src', () => {
    const broken = files.flatMap((file) =>
      importsOf(file)
        .filter(
          (target) =>
            folderOf(target) !== folderOf(file) && !allowed[folderOf(file)]?.includes(folderOf(target)),
        )
        .map((target) => `${file} imports ${target}`),
    )

    expect(broken).toEqual([])
  })

  it('has no import cycles', () => {
    const circles: string[] = []
    const visited = new Set<string>()
    const visit = (file: string, path: string[]): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' > '))
      if (visited.has(file)) return
      visited.add(file)
      for (const target of importsOf(file)) visit(target, [...path, file])
    }
    for (const file of files) visit(file, [])

    expect(circles).toEqual([])
  })

  it('is the order of the folders in docs/architecture.md', async () => {
    const page = await Bun.file(join(source, '../docs/architecture.md')).text()
    const tree = /^```\nsrc\/\n((?: {2}.+\n)+)/m.exec(page)![1]!
    const order = [...tree.matchAll(/^ {2}([\w.]+)/gm)].map(([, folder]) => folder!)
    const upwards = Object.entries(allowed).flatMap(([folder, targets]) =>
      targets
        .filter((target) => order.indexOf(target) < order.indexOf(folder))
        .map((target) => `${folder} imports ${target}, which is not below it`),
    )

    expect(order.toSorted()).toEqual(Object.keys(allowed).toSorted())
    expect(upwards).toEqual([])
  })

  it('knows every folder', () => {
    const unknown = [...new Set(files.map(folderOf))].filter((folder) => !Object.hasOwn(allowed, folder))

    expect(unknown).toEqual([])
  })
})

describe('every file', () => {
  // What programs, pages and the package start with.
  const starts = [
    'main.ts',
    'client/index.ts',
    'explorer/main.ts',
    'guides/guides-search.ts',
    'guides/page.ts',
  ]

  it('is used: one that is not lacks its row in a table, such as the commands of cli/commands.ts', () => {
    const used = new Set([...starts, ...files.flatMap(importsOf)])

    expect(files.filter((file) => !used.has(file))).toEqual([])
  })
})

describe('what is declared, and promised to users,', () => {
  const usedIn = (where: (file: string) => boolean) =>
    files
      .filter(where)
      .map((file) => texts.get(file)!)
      .join('\n')
  const camelCase = (name: string) => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase())

  it('is logged, if it is an event', () => {
    const others = usedIn((file) => file !== 'observability/log-events.ts')
    const events = Object.values(logEvents).flatMap((ofLevel) => Object.keys(ofLevel))
    // The kinds of `TransactionEvent` are the others.
    const named = events.filter((event) => !event.startsWith('batch.'))

    expect(named.filter((event) => !others.includes(`'${event}'`))).toEqual([])
  })

  it('is read, if it is a setting', () => {
    const others = usedIn((file) => folderOf(file) !== 'settings')
    const names = Object.keys(settingsSchema).map(camelCase)

    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(others))).toEqual([])
  })

  it('is read, if it is a parameter of a list', () => {
    const codec = texts.get('protocol/lists.ts')!

    expect(
      Object.keys(ListQuery.properties).filter((name) => !new RegExp(`\\b${name}\\b`).test(codec)),
    ).toEqual([])
  })
})

describe('the entry points to external resources', () => {
  it('are the only code that uses them', () => {
    const broken = entryPoints.flatMap(({ what, where }) =>
      files
        .filter((file) => !where.test(file) && what.test(codeOf(file)))
        .map((file) => `${file} uses ${what.source}`),
    )

    expect(broken).toEqual([])
  })
})

function importsOf(file: string): string[] {
  const found = (texts.get(file) ?? '').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)
  return [...found]
    .map(([, path]) => normalize(join(dirname(file), path!)))
    .filter((path) => !path.startsWith('..'))
}

function folderOf(file: string): string {
  return file.includes('/') ? file.slice(0, file.indexOf('/')) : file
}

// Comments and strings may mention what the code must not use.
function codeOf(file: string): string {
  return texts
    .get(file)!
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/(^|\s)\/\/.*$/gm, '')
}

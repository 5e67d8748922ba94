/**
 * The documentation page: draws the API document with Swagger UI, and fills in who asks. What was given stays in the tab's
 * session storage, so that it survives a reload, and is gone with the tab.
 */

interface Parameter {
  in: string
  name: string
  example?: unknown
}

interface Operation {
  summary: string
  description?: string
  parameters?: Parameter[]
  requestBody?: unknown
}

interface ApiDocument {
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
}

interface SwaggerUi {
  preauthorizeApiKey(scheme: string, value: string): void
  layoutActions: { show(thing: string[], isShown: boolean): void }
}

type Component = (properties: { children?: unknown }) => unknown

interface Wrapped {
  React: { createElement(component: unknown, properties: object, ...children: unknown[]): unknown }
}

declare function SwaggerUIBundle(options: object): SwaggerUi

const headTag = 'Headers only'
const names = ['BEARER_TOKEN', 'KEY_ID', 'BUCKET'] as const
/** Who asks, by the names that the sandbox and the recipe for Firefox use. */
export type Identity = Record<(typeof names)[number], string>

// A collection that no device reads, so that trying out does no harm.
const scratch = 'scratch'
// A bookmark folder that every account has.
const known = 'menu'
const largestHighlighted = 100_000

const form = document.getElementById('identity') as HTMLFormElement
const field = (name: string) => form.elements.namedItem(name) as HTMLInputElement
const state = document.getElementById('state')!

/** What the link holds, which the sandbox has made, or what this tab has been told before. */
function readIdentity(): Partial<Identity> {
  const given = new URLSearchParams(location.hash.slice(1))
  if (!given.has('BEARER_TOKEN')) return JSON.parse(sessionStorage.getItem('identity') ?? '{}')
  // Out of sight, and out of what is copied from the address bar.
  history.replaceState(null, '', location.pathname + location.search)
  const identity = Object.fromEntries(names.map((name) => [name, given.get(name) ?? '']))
  sessionStorage.setItem('identity', JSON.stringify(identity))
  return identity
}

function bucketOf(keyId: string): string {
  const clientState = /^\d+-([\w-]{22})=*$/.exec(keyId)?.[1]
  if (clientState === undefined) return ''
  const bytes = atob(clientState.replaceAll('-', '+').replaceAll('_', '/'))
  return Array.from(bytes, (char) => char.charCodeAt(0).toString(16).padStart(2, '0')).join('')
}

/** The document with what this page knows: the prefix in every path, whose bucket it is, and what may be written. */
function fitted(source: ApiDocument, bucket: string): ApiDocument {
  const [{ url: prefix } = { url: '' }] = source.servers
  const text = JSON.stringify(source)
  const own = JSON.parse(
    bucket ? text.replaceAll('0123456789abcdef0123456789abcdef', bucket) : text,
  ) as ApiDocument
  const paths = Object.entries(own.paths).map(([path, methods]) => {
    for (const [method, operation] of Object.entries(methods)) fit(method, operation)
    return [prefix + path, methods]
  })
  return { ...own, servers: [{ url: '/' }], paths: Object.fromEntries(paths) }
}

function fit(method: string, operation: Operation): void {
  const isWrite = method === 'put' || method === 'delete'
  const examples: Record<string, string> = {
    collection_id: isWrite ? scratch : 'bookmarks',
    record_id: isWrite ? 'example' : known,
    _limit: '5',
  }
  for (const parameter of operation.parameters ?? []) {
    const example = examples[parameter.name]
    if (example !== undefined) parameter.example = example
  }
  if (operation.requestBody) {
    const body = JSON.stringify(operation.requestBody)
    operation.requestBody = JSON.parse(
      method === 'post' ? body.replace(/(collections\/)bookmarks(\/records\/)/g, `$1${scratch}$2`) : body,
    )
  }
  if (!isWrite) return
  const collections = (document.body.dataset[method] ?? '').split(' ').filter(Boolean)
  if (collections.length === 0) operation.summary += ' (not enabled here)'
  const enabled =
    collections.length === 0
      ? '**Not enabled here**: the operator has opened no collection to it.'
      : `**Enabled here** in ${collections.map((name) => `\`${name}\``).join(', ')}.`
  operation.description = `${enabled}\n\n${operation.description ?? ''}`
}

/** Large answers as plain text, and of these the beginning: to colour a megabyte freezes a tab for a minute. */
const largeAnswers = {
  wrapComponents: {
    SyntaxHighlighter:
      (original: Component, { React }: Wrapped): Component =>
      (properties) => {
        const { children } = properties
        if (typeof children !== 'string' || children.length <= largestHighlighted) {
          return React.createElement(original, properties)
        }
        const rest = `\n… ${(children.length - largestHighlighted).toLocaleString()} more characters: Download has them all.`
        return React.createElement(
          'pre',
          { className: 'microlight' },
          children.slice(0, largestHighlighted) + rest,
        )
      },
  },
}

function draw(source: ApiDocument, identity: Partial<Identity>): void {
  const { BEARER_TOKEN, KEY_ID, BUCKET } = identity
  // A place of its own for each drawing, because the library does not let go of one that it has drawn in.
  const place = document.createElement('div')
  document.getElementById('page')!.replaceChildren(place)
  const ui = SwaggerUIBundle({
    spec: fitted(source, BUCKET ?? ''),
    domNode: place,
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    persistAuthorization: false,
    validatorUrl: null,
    plugins: [largeAnswers],
    onComplete() {
      ui.layoutActions.show(['operations-tag', headTag], false)
      if (!BEARER_TOKEN || !KEY_ID) return
      ui.preauthorizeApiKey('bearer', BEARER_TOKEN)
      ui.preauthorizeApiKey('keyId', KEY_ID)
      state.textContent =
        'Every request below is filled in and authorised. It stays so until you close this tab.'
    },
  })
}

function showLink(id: string, href: string): void {
  const link = document.getElementById(id) as HTMLAnchorElement
  link.href = href
  link.hidden = false
}

function followColours(): void {
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const apply = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
  dark.addEventListener('change', apply)
  apply()
}

followColours()
const identity = readIdentity()
for (const name of names) field(name).value = identity[name] ?? ''
const source = (await (await fetch('__api__')).json()) as ApiDocument
document.getElementById('prefix')!.textContent = source.servers[0]?.url ?? ''
if ('/explore' in source.paths) showLink('explorer', 'explore')
draw(source, identity)

form.addEventListener('submit', (event) => {
  event.preventDefault()
  const given = Object.fromEntries(names.map((name) => [name, field(name).value.trim()])) as Identity
  given.BUCKET ||= bucketOf(given.KEY_ID)
  field('BUCKET').value = given.BUCKET
  sessionStorage.setItem('identity', JSON.stringify(given))
  draw(source, given)
})

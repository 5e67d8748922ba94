/**
 * The API page: renders the API document with Swagger UI, with the user's credentials filled in. Saves these in the tab's session storage
 * for a reload, unless a command serves the page. Browsers write that to disk, and restore it when a closed tab is reopened.
 */
import { bucketOf, withoutQuotes } from '../client/account.ts'
import { exchange, ownBridge, takeCode } from '../explorer/own-page.ts'
import { inStorage } from '../explorer/tab.ts'
import { accessibleParts, collapsedHeaders, largeResponses, completeControls } from './swagger-parts.ts'

interface Operation {
  summary: string
  description?: string
  parameters?: { name: string; example?: string }[]
  requestBody?: unknown
}

interface ApiDocument {
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
}

/** The parts of Swagger UI that this page uses; its script is loaded first. */
declare function SwaggerUIBundle(options: object): {
  preauthorizeApiKey(scheme: string, value: string): void
}

const names = ['BEARER_TOKEN', 'KEY_ID', 'BUCKET'] as const
/** The user's credentials, under the names that the sandbox and the Firefox recipe use. */
type Identity = Partial<Record<(typeof names)[number], string>>

// No device reads this collection, so trying out writes does no harm.
const scratch = 'scratch'
// A bookmarks folder that every account has.
const known = 'menu'

const form = document.getElementById('identity') as HTMLFormElement

/** Gets the credentials for the code of the sandbox's link, or those that this tab has saved. */
async function readIdentity(): Promise<Identity> {
  const code = takeCode()
  if (code === null)
    return inStorage((storage) => JSON.parse(storage.getItem('identity') ?? '{}') as Identity) ?? {}
  return exchange<Identity>(code).catch(({ message }: Error) => {
    showState(message)
    return {}
  })
}

function showState(text: string): void {
  document.getElementById('state')!.textContent = text
}

function identityIn(given: FormData): Identity {
  const values = names.map((name) => [name, withoutQuotes(`${given.get(name) ?? ''}`)])
  const identity = Object.fromEntries(values) as Identity
  return { ...identity, BUCKET: identity.BUCKET || bucketOf(identity.KEY_ID ?? '') }
}

/** Fills in the form, and saves the credentials for a reload. */
function remember(identity: Identity): void {
  for (const name of names) (form.elements.namedItem(name) as HTMLInputElement).value = identity[name] ?? ''
  inStorage((storage) => storage.setItem('identity', JSON.stringify(identity)))
}

/** Adapts the document to this page: the prefix of every path, the user's bucket, and the enabled writes. */
function fitted(source: ApiDocument, bucket: string): ApiDocument {
  const [{ url: prefix } = { url: '' }] = source.servers
  const text = JSON.stringify(source)
  const example = '0123456789abcdef0123456789abcdef'
  // Other characters could inject more than a value, because the link may come from an attacker.
  const safe = /^[\w.-]{1,64}$/.test(bucket) ? bucket : example
  const own = JSON.parse(text.replaceAll(example, safe)) as ApiDocument
  const paths = Object.entries(own.paths).map(([path, methods]) => {
    for (const [method, operation] of Object.entries(methods)) fit(method, operation)
    return [prefix + path, methods]
  })
  return {
    ...own,
    servers: [{ url: ownBridge === null ? '/' : `${ownBridge}/` }],
    paths: Object.fromEntries(paths),
  }
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
  if (method === 'post') {
    const body = JSON.stringify(operation.requestBody)
    operation.requestBody = JSON.parse(body.replaceAll('/bookmarks/records/', `/${scratch}/records/`))
  }
  if (!isWrite) return
  const collections = (document.body.dataset[method] ?? '').split(' ').filter(Boolean)
  let enabled = `**Enabled here** in ${collections.map((name) => `\`${name}\``).join(', ')}.`
  if (collections.length === 0) {
    operation.summary += ' (not enabled here)'
    enabled = '**Not enabled here**: the operator has enabled it for no collection.'
  }
  operation.description = `${enabled}\n\n${operation.description ?? ''}`
}

function draw(source: ApiDocument, { BEARER_TOKEN, KEY_ID, BUCKET = '' }: Identity): void {
  // A new element for each rendering, because the library keeps using the old one.
  const place = document.createElement('div')
  document.getElementById('page')!.replaceChildren(place)
  const ui = SwaggerUIBundle({
    spec: fitted(source, BUCKET),
    domNode: place,
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    persistAuthorization: false,
    validatorUrl: null,
    plugins: [largeResponses, collapsedHeaders, accessibleParts],
    layout: 'AccessibleLayout',
    onComplete() {
      if (!BEARER_TOKEN || !KEY_ID) return
      ui.preauthorizeApiKey('bearer', BEARER_TOKEN)
      ui.preauthorizeApiKey('keyId', KEY_ID)
      const kept = ownBridge === null ? ' The browser keeps the token and the key id for this tab.' : ''
      showState(`Every request below is filled in and authorized.${kept}`)
    },
  })
}

function followColours(): void {
  const dark = matchMedia('(prefers-color-scheme: dark)')
  const apply = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
  dark.addEventListener('change', apply)
  apply()
}

async function start(): Promise<void> {
  followColours()
  completeControls(document.getElementById('page')!)
  const identity = await readIdentity()
  remember(identity)
  const source = (await (
    await fetch(ownBridge === null ? '__api__' : `${ownBridge}/v1/__api__`)
  ).json()) as ApiDocument
  document.getElementById('prefix')!.textContent = source.servers[0]?.url ?? ''
  if (ownBridge === null && '/explore' in source.paths) {
    const link = document.getElementById('explorer') as HTMLAnchorElement
    link.href = 'explore'
    link.hidden = false
  }
  draw(source, identity)

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const given = identityIn(new FormData(form))
    remember(given)
    draw(source, given)
  })
}

void start()

import { readClientSources } from './client-sources.ts' with { type: 'macro' }

const clientSources: Record<string, string> = readClientSources([
  'account.ts',
  'bookmarks.ts',
  'collection.ts',
  'crypto.ts',
  'errors.ts',
  'fields.ts',
  'files.ts',
  'requests.ts',
  'sync-client.ts',
])

/** The client modules that pages load. */
export const clientFiles: Record<string, () => Promise<unknown>> = Object.fromEntries(
  Object.entries(clientSources).map(([name, text]) => [`client/${name}`, async () => ({ default: text })]),
)

/** The files of the explorer by name. TypeScript files keep their names, because browsers only look at the media type. */
export const explorerFiles: Record<string, () => Promise<unknown>> = {
  'explore.html': explorePage,
  'explore.css': stylesheet,
  'main.ts': () => import('./main.ts', { with: { type: 'text' } }),
  'account.ts': () => import('./account.ts', { with: { type: 'text' } }),
  'form.ts': () => import('./form.ts', { with: { type: 'text' } }),
  'holdings.ts': () => import('./holdings.ts', { with: { type: 'text' } }),
  'tab.ts': () => import('./tab.ts', { with: { type: 'text' } }),
  'meaning.ts': () => import('./meaning.ts', { with: { type: 'text' } }),
  'elements.ts': () => import('./elements.ts', { with: { type: 'text' } }),
  'long-list.ts': () => import('./long-list.ts', { with: { type: 'text' } }),
  'rows.ts': () => import('./rows.ts', { with: { type: 'text' } }),
  'tree.ts': () => import('./tree.ts', { with: { type: 'text' } }),
  'details.ts': () => import('./details.ts', { with: { type: 'text' } }),
  'downloads.ts': () => import('./downloads.ts', { with: { type: 'text' } }),
  'views.ts': () => import('./views.ts', { with: { type: 'text' } }),
  'search.ts': () => import('./search.ts', { with: { type: 'text' } }),
  'order.ts': () => import('./order.ts', { with: { type: 'text' } }),
  'contents.ts': () => import('./contents.ts', { with: { type: 'text' } }),
  'drawing.ts': () => import('./drawing.ts', { with: { type: 'text' } }),
  'tools.ts': () => import('./tools.ts', { with: { type: 'text' } }),
  ...clientFiles,
}

/** All styles in one file. Those for narrow windows come last, because they override the others. */
async function stylesheet(): Promise<{ default: string }> {
  const parts = await Promise.all([
    import('./styles/base.css', { with: { type: 'text' } }),
    import('./styles/connect.css', { with: { type: 'text' } }),
    import('./styles/explorer.css', { with: { type: 'text' } }),
    import('./styles/lists.css', { with: { type: 'text' } }),
    import('./styles/details.css', { with: { type: 'text' } }),
    import('./styles/narrow.css', { with: { type: 'text' } }),
  ])
  return { default: parts.map(({ default: text }) => text).join('') }
}

/** The page, including the recipe to paste into Firefox: the first code block of the guide. */
async function explorePage(): Promise<{ default: string }> {
  const page = (await import('./explore.html', { with: { type: 'text' } })) as { default: unknown }
  const { default: guide } = await import('../../docs/connect.md', { with: { type: 'text' } })
  const [, recipe] = /^```js\n([^]*?)^```$/m.exec(guide)!
  return { default: String(page.default).replace('{recipe}', () => Bun.escapeHTML(recipe!)) }
}

/**
 * The files of the page by name, imported as text when somebody asks for them. Those of TypeScript keep their names: browsers
 * go by the type that a file is served as.
 */
export const explorerFiles: Record<string, () => Promise<unknown>> = {
  'explore.html': () => import('./explore.html', { with: { type: 'text' } }),
  'explore.css': () => import('./explore.css', { with: { type: 'text' } }),
  'main.ts': () => import('./main.ts', { with: { type: 'text' } }),
  'account.ts': () => import('./account.ts', { with: { type: 'text' } }),
  'meaning.ts': () => import('./meaning.ts', { with: { type: 'text' } }),
  'elements.ts': () => import('./elements.ts', { with: { type: 'text' } }),
  'views.ts': () => import('./views.ts', { with: { type: 'text' } }),
  'sync-crypto.js': () => import('../../docs/examples/sync-crypto.js', { with: { type: 'text' } }),
}

import { scriptFiles, type PageFiles } from './page-files.ts'

/** The files of the explorer by name. */
export const explorerFiles: PageFiles = {
  'explore.html': explorePage,
  'explore.css': stylesheet,
  ...scriptFiles('main'),
}

/** All styles in one file. Those for narrow windows come last, because they override the others. */
async function stylesheet(): Promise<{ default: string }> {
  const parts = await Promise.all([
    import('../explorer/styles/base.css', { with: { type: 'text' } }),
    import('../explorer/styles/connect.css', { with: { type: 'text' } }),
    import('../explorer/styles/explorer.css', { with: { type: 'text' } }),
    import('../explorer/styles/lists.css', { with: { type: 'text' } }),
    import('../explorer/styles/details.css', { with: { type: 'text' } }),
    import('../explorer/styles/narrow.css', { with: { type: 'text' } }),
  ])
  return { default: parts.map(({ default: text }) => text).join('') }
}

/** The page, including the recipe to paste into Firefox. */
async function explorePage(): Promise<{ default: string }> {
  const page = (await import('../explorer/explore.html', { with: { type: 'text' } })) as { default: unknown }
  const { default: recipe } = await import('../../docs/examples/firefox-console-once.txt', {
    with: { type: 'text' },
  })
  return { default: String(page.default).replace('{recipe}', () => Bun.escapeHTML(recipe)) }
}

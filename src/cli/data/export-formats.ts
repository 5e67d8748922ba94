/** What can be exported, each with its formats; the first is the one without `--format`. */
export const exportFormats = {
  bookmarks: ['html', 'json', 'csv', 'urls', 'markdown'],
  history: ['csv', 'json'],
  passwords: ['csv', 'json'],
  tabs: ['json', 'csv', 'urls', 'markdown'],
  everything: ['json'],
}

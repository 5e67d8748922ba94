/** The formats of each export; the first one is the default. */
export const exportFormats = {
  bookmarks: ['html', 'json', 'csv', 'urls', 'markdown'],
  history: ['csv', 'json'],
  passwords: ['csv', 'json'],
  tabs: ['json', 'csv', 'urls', 'markdown'],
  everything: ['json'],
}

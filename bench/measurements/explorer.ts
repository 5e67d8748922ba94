/** The size of the explorer in KB, uncompressed: its page, and the scripts and stylesheets that it loads. */
export async function measureExplorer(url: string): Promise<number> {
  const page = await textAt(url)
  const files = Array.from(page.matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g), ([, path]) => path!)
  const texts = [page, ...(await Promise.all(files.map((path) => textAt(new URL(path, url).href))))]
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0) / 1000
}

async function textAt(url: string): Promise<string> {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`Cannot measure the explorer: ${url} returned ${response.status}`)
  return response.text()
}

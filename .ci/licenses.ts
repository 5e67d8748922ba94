import { licenseTexts, type ShippedPackage } from './packages.ts'
import type { Product } from './sbom.ts'

const rule = '-'.repeat(80)

/** The licences of everything that a release contains, for people. A text that several packages share appears once. */
export function licenseList(product: Product, packages: ShippedPackage[]): string {
  const byText = Map.groupBy(packages, (one) => licenseTexts(one).join('\n\n'))
  const chapters = [...byText].map(([text, those]) => {
    const names = those.map(({ name, version, license }) => `${name} ${version} (${license})`).join('\n')
    return `${rule}\n${names}\n\n${text || 'The package brings no text; its package.json names the licence above.'}\n`
  })
  const introduction =
    `${product.name} ${product.version} is licensed under ${product.license}; see https://mozilla.org/MPL/2.0/.\n` +
    `\nThe executable contains the runtime Bun ${product.bunVersion}, which is under the MIT licence and is linked to\n` +
    'JavaScriptCore, which is under the LGPL 2; see https://bun.com/docs/project/licensing for both texts, those of\n' +
    'the libraries that are part of it, and how to link it to another version of JavaScriptCore.\n' +
    `\nIt further contains these ${packages.length} packages.\n`
  return `${introduction}\n${chapters.join('\n')}`
}

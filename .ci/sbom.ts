import type { ShippedPackage } from './packages.ts'

export interface Product {
  name: string
  version: string
  license: string
  description: string
  /** The version of the runtime that is part of every executable. */
  bunVersion: string
}

/**
 * The contents of a release as CycloneDX 1.5; see https://cyclonedx.org/docs/1.5/json/. Without a date and a serial number, so that the
 * same sources have the same list.
 */
export function sbom(product: Product, packages: ShippedPackage[]): string {
  const runtime = {
    type: 'platform',
    'bom-ref': purl('bun', product.bunVersion),
    name: 'bun',
    version: product.bunVersion,
    purl: purl('bun', product.bunVersion),
    // Its engine, JavaScriptCore, is LGPL.
    licenses: [{ expression: 'MIT AND LGPL-2.1-only' }],
  }
  const components = packages.map(({ name, version, license, integrity }) => ({
    type: 'library',
    'bom-ref': purl(name, version),
    name,
    version,
    purl: purl(name, version),
    licenses: license === 'NOASSERTION' ? [] : [{ expression: license }],
    hashes: [{ alg: 'SHA-512', content: Buffer.from(integrity.replace('sha512-', ''), 'base64').toHex() }],
  }))
  const document = {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      component: {
        type: 'application',
        'bom-ref': `${product.name}@${product.version}`,
        name: product.name,
        version: product.version,
        description: product.description,
        licenses: [{ expression: product.license }],
      },
    },
    components: [runtime, ...components],
    dependencies: [
      {
        ref: `${product.name}@${product.version}`,
        dependsOn: [runtime, ...components].map((component) => component['bom-ref']),
      },
    ],
  }
  return `${JSON.stringify(document, null, 2)}\n`
}

function purl(name: string, version: string): string {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`
}

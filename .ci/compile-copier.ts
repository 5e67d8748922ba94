/**
 * Compiles `src/upstream/usual-lines.wat` into the constant of `bso-stream.ts` that holds it. Run it after a change of the
 * text; a test holds that the two agree.
 *
 * Usage: bun .ci/compile-copier.ts
 */
import { join } from 'node:path'
import createWabt from 'wabt'

const folder = join(import.meta.dir, '../src/upstream')

/** The executable form of the text, as base64. */
export async function compileCopier(): Promise<string> {
  const text = await Bun.file(join(folder, 'usual-lines.wat')).text()
  const module = (await createWabt()).parseWat('usual-lines.wat', text, { simd: true })
  module.validate()
  return Buffer.from(module.toBinary({}).buffer).toString('base64')
}

if (import.meta.main) {
  const file = join(folder, 'bso-stream.ts')
  const text = await Bun.file(file).text()
  await Bun.write(file, text.replace(/(?<=const compiledCopier =\s+')[\w+/=]*/, await compileCopier()))
}

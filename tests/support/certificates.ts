import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { runProgram } from './processes.ts'

/** An unknown certificate authority, and a certificate that it issued for 127.0.0.1. */
export interface Certificates {
  /** PEM files. */
  caPath: string
  caKeyPath: string
  certificatePath: string
  keyPath: string
  caPem: string
}

/** Creates them in this folder, for the address 127.0.0.1 unless another name is given. */
export async function makeCertificates(folder: string, name = 'IP:127.0.0.1'): Promise<Certificates> {
  const file = (base: string) => join(folder, base)
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  writeFileSync(file('leaf.ext'), `subjectAltName=${name}\nbasicConstraints=CA:FALSE\n`)
  await runProgram(
    ['openssl', 'req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Test CA'],
    { cwd: folder },
  )
  await runProgram(
    ['openssl', 'req', '-new', ...key, '-keyout', 'leaf.key', '-out', 'leaf.csr', '-subj', '/CN=test'],
    { cwd: folder },
  )
  await runProgram(
    'openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile leaf.ext -out leaf.pem'.split(
      ' ',
    ) as [string, ...string[]],
    { cwd: folder },
  )
  return {
    caPath: file('ca.pem'),
    caKeyPath: file('ca.key'),
    certificatePath: file('leaf.pem'),
    keyPath: file('leaf.key'),
    caPem: readFileSync(file('ca.pem'), 'utf8'),
  }
}

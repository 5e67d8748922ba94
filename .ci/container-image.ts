import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'

import { environmentLines } from '../src/cli/service/runtime-environment.ts'
import { archive } from './archive.ts'

interface ContainerImage {
  version: string
  commit: string
  description: string
  license: string
  /** The built executable, for Linux with glibc on this processor. */
  executable: string
  architecture: Architecture
  /** The date of all files, in seconds since 1970. */
  epoch: number
  isCompressed: boolean
}

export type Architecture = 'amd64' | 'arm64'

interface Platform {
  /** Where this machine has the libraries, and where the image gets them. */
  from: string
  to: string
  /** The dynamic loader, by its path in an image. */
  loader: string
  /** The Debian package that contains all of it. */
  package: string
}

const platforms: Record<Architecture, Platform> = {
  amd64: {
    from: '/lib/x86_64-linux-gnu',
    to: 'lib/x86_64-linux-gnu',
    loader: 'lib64/ld-linux-x86-64.so.2',
    package: 'libc6:amd64',
  },
  arm64: {
    from: '/usr/aarch64-linux-gnu/lib',
    to: 'lib/aarch64-linux-gnu',
    loader: 'lib/ld-linux-aarch64.so.1',
    package: 'libc6-arm64-cross',
  },
}

// The libraries that the executable needs; see ldd(1).
const libraries = ['libc.so.6', 'libpthread.so.0', 'libdl.so.2', 'libm.so.6']
const certificates = 'etc/ssl/certs/ca-certificates.crt'
const user = 65532

/** What this machine needs to create such images: paths, or programs in PATH, with their Debian packages. */
export function imageNeeds(architectures: Architecture[]): Record<string, string> {
  const loaders = architectures.map((name) => {
    const { from, loader, package: debianPackage } = platforms[name]
    return [join(from, basename(loader)), debianPackage]
  })
  return { tar: 'tar', [join('/', certificates)]: 'ca-certificates', ...Object.fromEntries(loaders) }
}

/**
 * Creates an archive of an OCI image layout at this path, without a daemon: the executable, the libraries that it needs and the
 * certificates of this machine, and an unprivileged user. Bit for bit the same for the same contents.
 */
export async function makeContainerImage(path: string, image: ContainerImage): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'sync-bridge-image-'))
  try {
    const base = new Layer(join(work, 'base'))
    const { from, to, loader } = platforms[image.architecture]
    for (const name of libraries) base.copy(join(from, name), join(to, name))
    base.copy(join(from, basename(loader)), loader, 0o755)
    base.copy(join('/', certificates), certificates)
    base.write('etc/passwd', `root:x:0:0::/:/none\nsync-bridge:x:${user}:${user}::/:/none\n`)
    base.write('etc/group', `root:x:0:\nsync-bridge:x:${user}:\n`)
    base.write('etc/nsswitch.conf', 'hosts: files dns\n')
    for (const name of ['proc', 'sys', 'dev', 'tmp', 'etc/sync-bridge']) base.folder(name)
    const program = new Layer(join(work, 'program'))
    program.copy(image.executable, 'usr/bin/sync-bridge', 0o755)

    const layout = new Layout(join(work, 'layout'))
    const layers = [
      await layout.addLayer(base, image.epoch, image.isCompressed),
      await layout.addLayer(program, image.epoch, image.isCompressed),
    ]
    layout.finish(layers, image)
    await archive(layout.path, path, image.epoch)
  } finally {
    rmSync(work, { recursive: true })
  }
}

/** A folder that becomes a layer. */
class Layer {
  constructor(readonly path: string) {
    mkdirSync(path)
  }

  folder(name: string): void {
    mkdirSync(join(this.path, name), { recursive: true })
  }

  write(name: string, text: string): void {
    this.folder(dirname(name))
    writeFileSync(join(this.path, name), text)
    chmodSync(join(this.path, name), 0o644)
  }

  copy(from: string, name: string, mode = 0o644): void {
    this.folder(dirname(name))
    copyFileSync(realpathSync(from), join(this.path, name))
    chmodSync(join(this.path, name), mode)
  }
}

interface Descriptor {
  mediaType: string
  digest: string
  size: number
}

/** See the OCI image layout specification, 1.1. */
class Layout {
  constructor(readonly path: string) {
    mkdirSync(join(path, 'blobs/sha256'), { recursive: true })
    writeFileSync(join(path, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  }

  async addLayer(layer: Layer, epoch: number, isCompressed: boolean) {
    const file = `${layer.path}.tar`
    await archive(layer.path, file, epoch)
    const bytes = readFileSync(file)
    const type = 'application/vnd.oci.image.layer.v1.tar'
    return {
      contents: digestOf(bytes),
      // Contains neither a name nor a time.
      descriptor: isCompressed
        ? this.#add(`${type}+gzip`, gzipSync(bytes, { level: 9 }))
        : this.#add(type, bytes),
    }
  }

  finish(layers: { contents: string; descriptor: Descriptor }[], image: ContainerImage): void {
    const created = new Date(image.epoch * 1000).toISOString()
    const labels = {
      'org.opencontainers.image.title': 'sync-bridge',
      'org.opencontainers.image.description': image.description,
      'org.opencontainers.image.version': image.version,
      'org.opencontainers.image.revision': image.commit,
      'org.opencontainers.image.licenses': image.license,
    }
    const config = this.#addJson('application/vnd.oci.image.config.v1+json', {
      created,
      architecture: image.architecture,
      os: 'linux',
      config: {
        User: `${user}:${user}`,
        Entrypoint: ['/usr/bin/sync-bridge'],
        Cmd: ['serve'],
        // Only other containers can reach it, unless its port is published.
        Env: ['PATH=/usr/bin', 'SERVICE_HOST=0.0.0.0', 'SERVICE_PORT=8000', ...environmentLines],
        ExposedPorts: { '8000/tcp': {} },
        WorkingDir: '/',
        StopSignal: 'SIGTERM',
        Labels: labels,
        // An extension of Docker.
        Healthcheck: {
          Test: ['CMD', '/usr/bin/sync-bridge', 'healthcheck', '--url', 'http://127.0.0.1:8000'],
          Interval: 10e9,
          Timeout: 6e9,
          StartPeriod: 5e9,
          Retries: 3,
        },
      },
      rootfs: { type: 'layers', diff_ids: layers.map(({ contents }) => contents) },
      history: layers.map(() => ({ created })),
    })
    const mediaType = 'application/vnd.oci.image.manifest.v1+json'
    const manifest = this.#addJson(mediaType, {
      schemaVersion: 2,
      mediaType,
      config,
      layers: layers.map(({ descriptor }) => descriptor),
      annotations: labels,
    })
    // The second is the name that engines give the image once loaded.
    const name = {
      'org.opencontainers.image.ref.name': image.version,
      'io.containerd.image.name': `localhost/sync-bridge:${image.version}`,
    }
    const index = { schemaVersion: 2, manifests: [{ ...manifest, annotations: name }] }
    writeFileSync(join(this.path, 'index.json'), JSON.stringify(index))
  }

  #addJson(mediaType: string, value: unknown): Descriptor {
    return this.#add(mediaType, Buffer.from(JSON.stringify(value)))
  }

  #add(mediaType: string, bytes: Uint8Array): Descriptor {
    const digest = digestOf(bytes)
    writeFileSync(join(this.path, 'blobs/sha256', digest.slice('sha256:'.length)), bytes)
    return { mediaType, digest, size: bytes.length }
  }
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${new Bun.CryptoHasher('sha256').update(bytes).digest('hex')}`
}

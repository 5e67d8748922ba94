import { makeCertificates } from '../tests/support/certificates.ts'
import { cores, start } from './processes.ts'
import { startUpstream, type Upstream } from './subjects.ts'

/** A storage at the other end of a wire with adjustable latency. */
export interface Far {
  plain: Upstream
  tls: Upstream
  /** To detect whether load, wire and storage had CPU time left. */
  pids: number[]
  setRoundTrip(ms: number): Promise<void>
}

/** Constant responses, far away. */
export async function startFar(folder: string, core: string = cores.load): Promise<Far> {
  const certificates = await makeCertificates(folder)
  const { ports, pids } = await startUpstream(folder, core, certificates)
  return lead(ports, certificates.caPath, pids, core)
}

/** Routes these ports (without TLS and with it) through a wire. */
export async function lead(
  ports: { plain: number; tls: number },
  caPath: string,
  pids: number[],
  core: string = cores.load,
): Promise<Far> {
  const wire = start([process.execPath, `${import.meta.dir}/wire.ts`, ports.plain, ports.tls].map(String), {
    core,
    stdin: 'pipe',
    stdout: 'pipe',
  })
  const answers = (wire.stdout as ReadableStream<Uint8Array>).getReader()
  const read = async () => JSON.parse(Buffer.from((await answers.read()).value!).toString()) as number[]
  const [plain, tls] = await read()
  return {
    plain: { origin: `http://127.0.0.1:${plain}` },
    tls: { origin: `https://127.0.0.1:${tls}`, caPath },
    pids: [...pids, wire.pid],
    async setRoundTrip(ms) {
      ;(wire.stdin as Bun.FileSink).write(`${ms}\n`)
      await read()
    },
  }
}

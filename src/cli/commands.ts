import type { Settings } from '../settings/settings.ts'
import type { Host } from './host.ts'
import type { RereadSettings } from './lifecycle.ts'

/** What the sandbox is to start. A port that is null is chosen by the operating system. */
export interface SandboxOptions {
  /** Only the storage and the token server, without the bridge. */
  upstreamOnly: boolean
  port: number | null
  tokenPort: number | null
  storagePort: number | null
  /** How many sample records a collection gets, by its canonical name. */
  seed: Map<string, number>
}

/** Asks what the service depends on whether it answers: true, or a sentence about what is wrong. */
export interface Probes {
  tokenServer(): Promise<true | string>
  cache(): Promise<true | string>
  /** The address to listen on. */
  address(): Promise<{ ok: boolean; detail: string }>
  close(): void | Promise<void>
}

/** The parts of the program that do more than talk about settings. Each answers the exit code. */
export interface Commands {
  serve(settings: Settings, host: Host, reread: RereadSettings): Promise<number>
  sandbox(options: SandboxOptions, host: Host): Promise<number>
  createProbes(settings: Settings, host: Host): Promise<Probes>
}

/** The real ones, loaded when they are needed: a health check every few seconds must not load a server. */
export const realCommands: Commands = {
  async serve(settings, host, reread) {
    const { serve } = await import('./serve.ts')
    return serve(settings, host, reread)
  },
  async sandbox(options, host) {
    const { sandbox } = await import('./sandbox.ts')
    return sandbox(options, host)
  },
  async createProbes(settings, host) {
    const { createProbes } = await import('./check.ts')
    return createProbes(settings, host)
  },
}

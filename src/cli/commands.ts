import type { Settings } from '../settings/settings.ts'
import type { Probes } from './check.ts'
import type { Host } from './host.ts'
import type { RereadSettings } from './lifecycle.ts'
import type { SandboxOptions } from './sandbox.ts'

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

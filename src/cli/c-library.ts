import type { FFIFunction } from 'bun:ffi'

// By the names that glibc and musl give it.
const names = ['libc.so.6', 'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1', 'libc.so']

/** These functions of the C library, for what the runtime itself can't do; null where there is none that we know. */
export async function openCLibrary<Functions extends Record<string, FFIFunction>>(functions: Functions) {
  const { dlopen } = await import('bun:ffi')
  for (const name of names) {
    try {
      return dlopen(name, functions).symbols
    } catch {
      // Not this one.
    }
  }
  return null
}

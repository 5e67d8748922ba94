/** Runs a program until it exits and returns its output; throws with that if it fails. */
export async function run(
  command: string[],
  options: { cwd?: string; environment?: Record<string, string> } = {},
): Promise<string> {
  const child = Bun.spawn(command, {
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    env: { ...process.env, ...options.environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  if (code !== 0) throw new Error(`"${command.join(' ')}" ended with ${code}:\n${out}${errors}`)
  return out
}

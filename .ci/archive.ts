import { run } from './run-command.ts'

/** Creates an archive of a folder, bit for bit the same for the same contents. `epoch`: the date of all files, in seconds since 1970. */
export async function archive(folder: string, path: string, epoch: number): Promise<void> {
  const same = [
    '--sort=name',
    `--mtime=@${epoch}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--format=ustar',
  ]
  // The archive must not depend on the builder's umask.
  await run(['tar', ...same, '--mode=u+rwX,go+rX,go-w', '-C', folder, '-cf', path, '.'])
}

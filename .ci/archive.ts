import { run } from './run-command.ts'

/** Makes an archive of a folder, bit for bit the same for the same contents. `epoch`: seconds since 1970 that all of it is dated. */
export async function archive(folder: string, path: string, epoch: number): Promise<void> {
  const same = [
    '--sort=name',
    `--mtime=@${epoch}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--format=ustar',
  ]
  // The mask of whoever builds this must not be seen in it.
  await run(['tar', ...same, '--mode=u+rwX,go+rX,go-w', '-C', folder, '-cf', path, '.'])
}

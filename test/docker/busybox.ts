import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type Image, makeImage } from '../../deploy/image/image.ts';
import { type TarEntry, tar } from '../../deploy/image/tar.ts';

/** What tests name. */
export const BUSYBOX = 'oscar.test/busybox:1';
/** The same for a user without rights. */
export const BUSYBOX_USER = 'oscar.test/busybox-user:1';
/** Would run something else, if it were asked. */
export const OTHER_ENTRYPOINT = 'oscar.test/entrypoint:1';
export const NO_SHELL = 'oscar.test/no-shell:1';

const PATH = 'PATH=/usr/local/bin:/usr/bin:/bin';

/** Everything the tests run, made of one static program. */
export async function busyboxImages(program: { path: string; bytes: Uint8Array }): Promise<Record<string, Image>> {
  const { stdout } = await promisify(execFile)(program.path, ['--list']);
  const applets = stdout.split('\n').filter((name) => name !== '' && name !== 'busybox');
  const root = tar([...SKELETON, { name: 'bin/busybox', mode: 0o755, bytes: program.bytes }, ...applets.map(link)]);
  return {
    [BUSYBOX]: makeImage([root], { Env: [PATH], Cmd: ['sh'] }),
    [BUSYBOX_USER]: makeImage([root], { Env: [PATH], User: '1000:1000', WorkingDir: '/home/user' }),
    [OTHER_ENTRYPOINT]: makeImage([root], {
      Env: [PATH, 'FROM_IMAGE=yes'],
      Entrypoint: ['/bin/false'],
      Cmd: ['of', 'the', 'image'],
    }),
    [NO_SHELL]: makeImage([tar(SKELETON)], { Env: [PATH] }),
  };
}

const link = (name: string): TarEntry => ({ name: `bin/${name}`, mode: 0o777, linkTo: 'busybox' });

const PASSWD = 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n';

const SKELETON: readonly TarEntry[] = [
  ...['bin/', 'dev/', 'etc/', 'home/', 'proc/', 'root/', 'sys/'].map((name) => ({ name })),
  { name: 'home/user/', mode: 0o777 },
  { name: 'tmp/', mode: 0o1777 },
  { name: 'etc/passwd', bytes: Buffer.from(PASSWD) },
  { name: 'etc/group', bytes: Buffer.from('root:x:0:\nuser:x:1000:\n') },
];

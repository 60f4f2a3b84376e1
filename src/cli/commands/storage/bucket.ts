import { type Column, show } from '../../client/table.ts';
import { act, clusterCommand, type Register, required, showCommand } from '../command.ts';
import { formatSize } from '../units.ts';

interface Bucket {
  readonly bucket_name: string;
  readonly visibility: string;
  readonly owner: string;
  readonly allowed_users: readonly string[] | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly storage_usage: { readonly used_bytes: number; readonly objects?: number };
}

const COLUMNS: readonly Column<Bucket>[] = [
  { title: 'BUCKET', of: ({ bucket_name }) => bucket_name },
  { title: 'OBJECTS', of: ({ storage_usage }) => String(storage_usage.objects ?? 0) },
  { title: 'SIZE', of: ({ storage_usage }) => formatSize(storage_usage.used_bytes) },
  { title: 'VISIBILITY', of: ({ visibility }) => visibility },
  { title: 'SERVICE', of: ({ metadata }) => metadata['from_service'] ?? '' },
  { title: 'OWNER', of: ({ owner }) => owner, wide: true },
  { title: 'ALLOWED', of: ({ allowed_users }) => (allowed_users ?? []).join(', '), wide: true },
];

interface ShareOptions {
  readonly visibility?: string;
  readonly user?: readonly string[];
}

export const bucket: Register = (program, env) => {
  const group = program.command('bucket').description('manage the buckets of a cluster');

  act(showCommand(group, 'list', 'list the buckets that you can access'), env, async (session) => {
    const cluster = await session.cluster();
    const found = (await cluster.call('GET', '/system/buckets')).json() as Bucket[];
    show(found, COLUMNS, session, `no buckets on ${cluster.id}`);
  });

  for (const [verb, method, words] of [
    ['create', 'POST', 'create a bucket, or a folder (BUCKET/FOLDER)'],
    ['share', 'PUT', 'change who can access a bucket'],
  ] as const) {
    const command = clusterCommand(group, `${verb} <bucket>`, words)
      .option('--visibility <who>', 'private, restricted or public')
      .option('--user <uid...>', 'users that can access it, with --visibility restricted');
    act(command, env, async (session, [name]) => {
      const { visibility, user } = command.opts<ShareOptions>();
      const body = {
        bucket_name: required(name),
        ...(visibility && { visibility }),
        ...(user && { allowed_users: user }),
      };
      await (await session.cluster()).call(method, '/system/buckets', { body, about: `bucket "${name}"` });
    });
  }

  act(clusterCommand(group, 'delete <bucket>', 'delete a bucket and its objects'), env, async (session, [name]) => {
    const path = `/system/buckets/${encodeURIComponent(required(name))}`;
    await (await session.cluster()).call('DELETE', path, { about: `bucket "${name}"` });
  });
};

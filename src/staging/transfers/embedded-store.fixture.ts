import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { S3Access } from '../../model/job/index.ts';
import { type ObjectStoreServer, openObjectStore } from '../../s3-server/index.ts';

type Context = Pick<TestContext, 'after'>;

/** Does not encrypt: sealing has its own tests. */
const seal = { seal: (text: string) => Buffer.from(text), open: (bytes: Uint8Array) => Buffer.from(bytes).toString() };

/** A new directory that is removed after the test. */
export function scratch(t: Context): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-staging-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/**
 * The embedded store with the buckets `inputs` and `outputs`, and keys of a job that can read the first and write the
 * second.
 */
export async function embeddedStore(t: Context): Promise<{ store: ObjectStoreServer; access: S3Access }> {
  const manager = { accessKey: 'manager', secret: new Secret('manager-secret') };
  const store = openObjectStore({ directory: scratch(t), region: 'us-east-1', manager, seal });
  t.after(() => store.close());
  const { port } = await store.listen({ host: '127.0.0.1', port: 0 });
  for (const name of ['inputs', 'outputs']) await store.createBucket({ name, owner: 'somebody' });
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 's3:GetObject', Resource: ['arn:aws:s3:::inputs/*', 'arn:aws:s3:::outputs/*'] },
      {
        Effect: 'Allow',
        Action: ['s3:PutObject', 's3:AbortMultipartUpload'],
        Resource: ['arn:aws:s3:::outputs/allowed/*', 'arn:aws:s3:::missing/*'],
      },
    ],
  });
  const { accessKey, secretKey, sessionToken } = await store.issueKeys({ parent: 'job', policy, ttl: 600_000 });
  return { store, access: s3Access(port, { accessKey: new Secret(accessKey), secretKey, sessionToken }) };
}

export function s3Access(port: number, given: Partial<S3Access> = {}): S3Access {
  return {
    type: 's3',
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    accessKey: new Secret('some-access-key'),
    secretKey: new Secret('some-secret-key'),
    verify: true,
    guarded: false,
    ...given,
  };
}

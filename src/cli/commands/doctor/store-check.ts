import { randomUUID } from 'node:crypto';
import { Agent } from 'node:https';
import { Secret } from '../../../lib/secret.ts';
import { type Check, failure, passed } from '../../../model/cluster-checks.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { onInterrupt } from '../../client/interruption.ts';
import { printable } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import { formatDuration } from '../units.ts';
import { failed } from './check.ts';

interface Store {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKey: string;
  readonly secretKey: Secret;
  readonly verify: boolean;
}

/** How long the store may take for a few bytes. */
const PATIENCE_MS = 10_000;

const CONTENT = 'written by `oscar doctor`, deleted right after';

/**
 * Writes, reads and deletes an object with the user's own keys. It uses a temporary bucket, because an object in a service's
 * bucket could start a job.
 */
export async function storeCheck(cluster: ClusterClient, terminal: Terminal): Promise<Check> {
  const bucket = `oscar-doctor-${randomUUID().slice(0, 13)}`;
  const about = `bucket "${bucket}"`;
  try {
    const store = await readStore(cluster);
    await cluster.call('POST', '/system/buckets', { body: { bucket_name: bucket }, about });
    const interrupted = () =>
      terminal.warn(`interrupted: remove the temporary bucket with \`oscar bucket delete ${bucket} -c ${cluster.id}\``);
    return await onInterrupt(interrupted, async () => {
      try {
        return await tryStore(store, bucket, cluster.id);
      } finally {
        await cluster.call('DELETE', `/system/buckets/${bucket}`, { about });
      }
    });
  } catch (error) {
    if (error instanceof ClientError) return failed(cluster.id, 'storage', error);
    throw error;
  }
}

async function readStore(cluster: ClusterClient): Promise<Store> {
  const { minio_provider: given } = (await cluster.call('GET', '/system/config')).json() as {
    minio_provider: { endpoint: string; region: string; access_key: string; secret_key: string };
  };
  const { endpoint, region, access_key: accessKey, secret_key } = given;
  return { endpoint, region, accessKey, secretKey: new Secret(secret_key), verify: cluster.entry.ssl_verify };
}

async function tryStore(store: Store, bucket: string, id: string): Promise<Check> {
  const { endpoint, region, accessKey, secretKey, verify } = store;
  // The SDK is slow to load, and only this command needs it.
  const { S3Client, PutObjectCommand, GetObjectCommand, DeleteObjectCommand } = await import('@aws-sdk/client-s3');
  const { NodeHttpHandler } = await import('@smithy/node-http-handler');
  const client = new S3Client({
    endpoint,
    region: region || 'us-east-1',
    forcePathStyle: true,
    maxAttempts: 1,
    requestHandler: new NodeHttpHandler({
      httpsAgent: new Agent({ rejectUnauthorized: verify }),
      connectionTimeout: PATIENCE_MS,
      requestTimeout: PATIENCE_MS,
      throwOnRequestTimeout: true,
    }),
    credentials: { accessKeyId: accessKey, secretAccessKey: secretKey.reveal() },
  });
  const object = { Bucket: bucket, Key: 'probe' };
  const began = performance.now();
  try {
    await client.send(new PutObjectCommand({ ...object, Body: CONTENT }));
    const { Body } = await client.send(new GetObjectCommand(object));
    if ((await Body?.transformToString()) !== CONTENT) {
      return failure(
        id,
        'storage',
        `${endpoint} returned other content than was written: is there a proxy in between?`,
      );
    }
    await client.send(new DeleteObjectCommand(object));
    return passed(id, 'storage', `wrote, read and deleted an object in ${formatDuration(performance.now() - began)}`);
  } catch (error) {
    const { name, message } = error as Error;
    const why = printable(message || name);
    return failure(
      id,
      'storage',
      `cannot use ${endpoint} from here: ${why}. Is it reachable, and is MINIO_PUBLIC_ENDPOINT right?`,
    );
  } finally {
    client.destroy();
  }
}

import { randomUUID } from 'node:crypto';
import { Agent } from 'node:https';
import { Secret } from '../../../lib/secret.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { onInterrupt } from '../../client/interruption.ts';
import { printable } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import { exactly } from '../units.ts';
import { bad, type Check, failed, good } from './check.ts';

interface Store {
  readonly endpoint: string;
  readonly region: string;
  readonly accessKey: string;
  readonly secretKey: Secret;
  readonly verify: boolean;
}

/** As long as a store may be silent with a few bytes. */
const PATIENCE_MS = 10_000;

const CONTENT = 'written by `oscar doctor`, and deleted at once';

/**
 * Writes, reads and deletes an object at the store of a cluster with the user's own keys. It does so in a bucket of its
 * own, which is gone afterwards: in that of a service it could start a job.
 */
export async function storeCheck(cluster: ClusterClient, terminal: Terminal): Promise<Check> {
  const bucket = `oscar-doctor-${randomUUID().slice(0, 13)}`;
  const about = `bucket "${bucket}"`;
  try {
    const store = await storeOf(cluster);
    await cluster.call('POST', '/system/buckets', { body: { bucket_name: bucket }, about });
    const interrupted = () =>
      terminal.warn(`left behind: \`oscar bucket delete ${bucket} -c ${cluster.id}\` removes it`);
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

async function storeOf(cluster: ClusterClient): Promise<Store> {
  const { minio_provider: given } = (await cluster.call('GET', '/system/config')).json() as {
    minio_provider: { endpoint: string; region: string; access_key: string; secret_key: string };
  };
  const { endpoint, region, access_key: accessKey, secret_key } = given;
  return { endpoint, region, accessKey, secretKey: new Secret(secret_key), verify: cluster.entry.ssl_verify };
}

async function tryStore(store: Store, bucket: string, id: string): Promise<Check> {
  const { endpoint, region, accessKey, secretKey, verify } = store;
  // It is much to load, and only this command needs it.
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
      return bad(id, 'storage', `${endpoint} does not give back what was written: what is in between?`);
    }
    await client.send(new DeleteObjectCommand(object));
    return good(id, 'storage', `an object was written, read and deleted in ${exactly(performance.now() - began)}`);
  } catch (error) {
    const { name, message } = error as Error;
    const why = printable(message || name);
    return bad(
      id,
      'storage',
      `${endpoint} cannot be used from here: ${why}. Is it reachable, and its address (MINIO_PUBLIC_ENDPOINT) right?`,
    );
  } finally {
    client.destroy();
  }
}

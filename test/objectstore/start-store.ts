import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { Seal, Secret } from '../../src/lib/secret.ts';
import { type ObjectStoreServer, openObjectStore } from '../../src/s3-server/index.ts';
import type { ObjectStoreOptions } from '../../src/s3-server/open.ts';

export interface Keys {
  readonly accessKey: string;
  readonly secret: Secret;
  readonly token?: Secret;
}

export const MANAGER: Keys = { accessKey: 'oscar-manager', secret: new Secret('manager-secret-1') };

/** A uid with a domain, as from identity providers. */
export const ANA: Keys = { accessKey: 'ana@egi.eu', secret: new Secret('ana-secret-123') };
export const BEN: Keys = { accessKey: 'ben@egi.eu', secret: new Secret('ben-secret-123') };

export interface TestStore extends AsyncDisposable {
  readonly store: ObjectStoreServer;
  readonly directory: string;
  readonly endpoint: string;
  readonly port: number;
  /** An aws-sdk client with its defaults. */
  client(keys?: Keys, config?: S3ClientConfig): S3Client;
  /** Errors that the server reported. */
  readonly reported: unknown[];
}

/** Starts a store with two users in a new directory, on a free port; on loopback unless a host is given. */
export async function startStore(options: Partial<ObjectStoreOptions> = {}, host = '127.0.0.1'): Promise<TestStore> {
  const own = options.directory === undefined;
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), 'oscar-objects-'));
  const reported: unknown[] = [];
  const store = openObjectStore({
    region: 'us-east-1',
    manager: MANAGER,
    seal: new Seal(Buffer.alloc(32, 7)),
    report: (error) => reported.push(error),
    ...options,
    directory,
  });
  await store.putUser(ANA.accessKey, ANA.secret);
  await store.putUser(BEN.accessKey, BEN.secret);
  const { port } = await store.listen({ host, port: 0 });
  const endpoint = `http://${host}:${port}`;
  const clients: S3Client[] = [];
  return {
    store,
    directory,
    endpoint,
    port,
    reported,
    client(keys = ANA, config = {}) {
      const client = new S3Client({ ...configFor(endpoint, keys), ...config });
      clients.push(client);
      return client;
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.destroy();
      await store.close();
      if (own) rmSync(directory, { recursive: true, force: true });
    },
  };
}

export function configFor(endpoint: string, { accessKey, secret, token }: Keys) {
  const credentials = {
    accessKeyId: accessKey,
    secretAccessKey: secret.reveal(),
    ...(token && { sessionToken: token.reveal() }),
  };
  return { endpoint, region: 'us-east-1', forcePathStyle: true, credentials };
}

/** Random bytes. */
export const randomContent = (length: number) => randomBytes(length);

/** The code of the S3 error with which a call fails. */
export async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'no error';
  } catch (error) {
    return error instanceof Error ? error.name : String(error);
  }
}

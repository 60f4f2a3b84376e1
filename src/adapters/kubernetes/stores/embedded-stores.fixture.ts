import { buffer } from 'node:stream/consumers';
import { Secret } from '../../../lib/secret.ts';
import type { S3Access } from '../../../model/job/index.ts';
import type { StoresUnderTest } from '../../../ports/conformance/runner-under-test.ts';
import type { BlobStore } from '../../../ports/index.ts';
import { type ObjectStoreServer, openObjectStore } from '../../../s3-server/index.ts';

const BLOBS = 'blobs';
const BUCKETS = ['bucket', 'texts', 'lists', BLOBS];

/** The embedded object store at an address that pods can reach, with a bucket for blobs. */
export class EmbeddedStores implements StoresUnderTest {
  readonly access: S3Access;
  readonly server: ObjectStoreServer;
  readonly #endpoint: string;

  private constructor(server: ObjectStoreServer, endpoint: string, access: S3Access) {
    this.server = server;
    this.#endpoint = endpoint;
    this.access = access;
  }

  static async open(directory: string, host: string): Promise<EmbeddedStores> {
    const manager = { accessKey: 'manager', secret: new Secret('manager-secret') };
    const seal = {
      seal: (text: string) => Buffer.from(text),
      open: (bytes: Uint8Array) => Buffer.from(bytes).toString(),
    };
    const server = openObjectStore({ directory, region: 'us-east-1', manager, seal });
    const { port } = await server.listen({ host, port: 0 });
    for (const name of BUCKETS) {
      await server.createBucket({ name, owner: 'somebody' });
      if (name !== BLOBS) await server.putRule(name, { id: 'all', prefix: '' });
    }
    const endpoint = `http://${host}:${port}`;
    return new EmbeddedStores(server, endpoint, {
      type: 's3',
      endpoint,
      region: 'us-east-1',
      verify: true,
      guarded: false,
      accessKey: new Secret(manager.accessKey),
      secretKey: manager.secret,
    });
  }

  /** Keys that expire after this time. */
  async shortKeys(milliseconds: number): Promise<S3Access> {
    const statement = { Effect: 'Allow', Action: 's3:*', Resource: ['arn:aws:s3:::*'] };
    const policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
    const keys = await this.server.issueKeys({ parent: 'job', policy, ttl: milliseconds });
    const { accessKey, secretKey, sessionToken } = keys;
    return { ...this.access, accessKey: new Secret(accessKey), secretKey, sessionToken };
  }

  /** Removes all objects and events. */
  async empty(): Promise<void> {
    for (const bucket of BUCKETS) await this.server.deleteUnder(bucket, '');
    await this.#forgetEvents();
  }

  async put(bucket: string, key: string, bytes: Uint8Array): Promise<void> {
    await this.server.putObject({ bucket, key }, bytes);
    await this.#forgetEvents();
  }

  async get(bucket: string, key: string): Promise<Uint8Array | undefined> {
    return this.server.statObject({ bucket, key }) && buffer(this.server.readObject({ bucket, key }).stream);
  }

  async uploads(bucket: string): Promise<string[]> {
    return this.server.takeEvents(10_000).flatMap((event) => (event.bucket === bucket ? event.key : []));
  }

  get blobs(): BlobStore {
    const at = (key: string) => ({ bucket: BLOBS, key });
    const url = (method: 'GET' | 'PUT', key: string, expires: number) =>
      this.server.presign(method, at(key), { expires, endpoint: this.#endpoint });
    return {
      put: async (key, bytes) => void (await this.server.putObject(at(key), bytes)),
      get: async (key) => this.server.statObject(at(key)) && this.server.readObject(at(key)).stream,
      remove: (prefix) => this.server.deleteUnder(BLOBS, prefix),
      list: async () => {
        const { objects } = this.server.listObjects(BLOBS, { limit: 1_000 });
        return { items: objects.map(({ key, modified }) => ({ key, putAt: modified })) };
      },
      urlToGet: async (key, seconds) => url('GET', key, seconds),
      urlToPut: async (key, seconds) => url('PUT', key, seconds),
    };
  }

  close(): Promise<void> {
    return this.server.close();
  }

  async #forgetEvents(): Promise<void> {
    await this.server.ackEvents(this.server.takeEvents(10_000).map(({ seq }) => seq));
  }
}

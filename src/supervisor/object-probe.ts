import type { S3Access } from '../cluster/index.ts';
import type { Network } from '../outbound/index.ts';
import { Connections } from './connections.ts';
import { readAddress } from './remote-store.ts';

/** Looks whether objects can be read, in this process: no worker is waited for that moves files just then. */
export interface ObjectProbe {
  /** Why it cannot be read with these keys, in words that end a sentence; undefined when it can. */
  readonly unreadable: (
    object: { readonly bucket: string; readonly key: string },
    access: S3Access,
    until: AbortSignal,
  ) => Promise<string | undefined>;
  close(): void;
}

export function createObjectProbe(options: { readonly networks: readonly Network[] }): ObjectProbe {
  const connections = new Connections(options.networks);
  let loaded: ReturnType<typeof load> | undefined;
  return {
    async unreadable({ bucket, key }, access, abortSignal) {
      loaded ??= load(connections);
      const { clients, head, failure } = await loaded;
      let host = '';
      try {
        host =
          access.endpoint === undefined ? `s3.${access.region}.amazonaws.com` : readAddress(access.endpoint).hostname;
        await head(clients.client(access), bucket, key, abortSignal);
        return undefined;
      } catch (error) {
        return abortSignal.aborted ? `"${host}" does not answer in time` : failure(error, host).message;
      }
    },
    close: () => connections.close(),
  };
}

/** A manager that nobody offers jobs pays nothing for the SDK. */
async function load(connections: Connections) {
  const [{ HeadObjectCommand }, { S3Clients }, { s3Failure }] = await Promise.all([
    import('@aws-sdk/client-s3'),
    import('./s3-clients.ts'),
    import('./s3-failure.ts'),
  ]);
  const clients = new S3Clients(connections);
  const head = (client: ReturnType<typeof clients.client>, bucket: string, key: string, abortSignal: AbortSignal) =>
    client.send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal });
  return { clients, head, failure: s3Failure };
}

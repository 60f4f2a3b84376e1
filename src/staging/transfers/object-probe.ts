import type { Network } from '../../lib/http/index.ts';
import type { S3Access } from '../../model/job/index.ts';
import { Connections, readAddress } from './remote-store.ts';

/** Resolves to the reason for a failure, as the end of a sentence; undefined on success. */
type Look = (
  object: { readonly bucket: string; readonly key: string },
  access: S3Access,
  until: AbortSignal,
) => Promise<string | undefined>;

/** Checks objects in this process, so that it need not wait for a worker that is moving files. */
export interface ObjectProbe {
  /** Why the object cannot be read with these keys. */
  readonly unreadable: Look;
  /** Why the store cannot be reached. A missing object is not a failure. */
  readonly unreachable: Look;
  close(): void;
}

export function createObjectProbe(options: { readonly networks: readonly Network[] }): ObjectProbe {
  const connections = new Connections(options.networks);
  let loaded: ReturnType<typeof load> | undefined;
  const look = async (...[{ bucket, key }, access, abortSignal]: Parameters<Look>): Promise<Found> => {
    loaded ??= load(connections);
    const { clients, head, failure, isMissing } = await loaded;
    let host = '';
    try {
      host =
        access.endpoint === undefined ? `s3.${access.region}.amazonaws.com` : readAddress(access.endpoint).hostname;
      await head(clients.client(access), bucket, key, abortSignal);
      return {};
    } catch (error) {
      const why = abortSignal.aborted ? `"${host}" does not answer in time` : failure(error, host).message;
      return { why, missing: isMissing(error) };
    }
  };
  return {
    unreadable: async (...question) => (await look(...question)).why,
    async unreachable(...question) {
      const { why, missing } = await look(...question);
      return missing ? undefined : why;
    },
    close: () => connections.close(),
  };
}

interface Found {
  readonly why?: string;
  readonly missing?: boolean;
}

/** Loads the SDK when it is first needed: a manager that gets no offers does not need it. */
async function load(connections: Connections) {
  const [{ HeadObjectCommand, NotFound }, { S3Clients, toS3TransferError }] = await Promise.all([
    import('@aws-sdk/client-s3'),
    import('./s3.ts'),
  ]);
  const clients = new S3Clients(connections);
  const head = (client: ReturnType<typeof clients.client>, bucket: string, key: string, abortSignal: AbortSignal) =>
    client.send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal });
  return { clients, head, failure: toS3TransferError, isMissing: (error: unknown) => error instanceof NotFound };
}

import { hash } from 'node:crypto';
import { S3Client } from '@aws-sdk/client-s3';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import type { Agents } from '../../lib/http/index.ts';
import type { S3Access } from '../../model/job/index.ts';
import type { Connections } from './connections.ts';

/** Keys belong to one job, so that few clients are used more than a few times; an old one only holds on to its keys. */
const MOST = 32;
const LIFETIME = 300_000;

/** A store that says nothing for so long is gone; a healthy one that is busy says something in seconds. */
const IDLE_DEADLINE = 60_000;

/** From the first byte of a request to its answer. Longer than the largest part takes on a slow line. */
const REQUEST_DEADLINE = 600_000;

/** Tries of one request, by the SDK: it knows which answers may get better, and waits longer each time. */
const TRIES = 4;

interface Kept {
  readonly client: S3Client;
  readonly until: number;
}

/** A client for each set of keys. They share their connections and are never destroyed: those would go with them. */
export class S3Clients {
  readonly #connections: Connections;
  readonly #now: () => number;
  readonly #handlers = new WeakMap<Agents, NodeHttpHandler>();
  readonly #kept = new Map<string, Kept>();

  constructor(connections: Connections, now: () => number = () => performance.now()) {
    this.#connections = connections;
    this.#now = now;
  }

  get size(): number {
    return this.#kept.size;
  }

  client(access: S3Access): S3Client {
    const key = fingerprint(access);
    const known = this.#kept.get(key);
    this.#forget();
    const client = known?.client ?? this.#make(access);
    // Again at the end: the first one is the one that nobody has asked for longest.
    this.#kept.delete(key);
    this.#kept.set(key, { client, until: this.#now() + LIFETIME });
    return client;
  }

  #forget(): void {
    for (const [key, { until }] of this.#kept) {
      if (until > this.#now() && this.#kept.size < MOST) return;
      this.#kept.delete(key);
    }
  }

  /** Everything is said here that the SDK would otherwise look for in files and variables of whoever runs us. */
  #make(access: S3Access): S3Client {
    const { endpoint, region, accessKey, secretKey, sessionToken } = access;
    return new S3Client({
      region,
      ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
      credentials: {
        accessKeyId: accessKey.reveal(),
        secretAccessKey: secretKey.reveal(),
        ...(sessionToken && { sessionToken: sessionToken.reveal() }),
      },
      requestHandler: this.#handler(this.#connections.agents(access)),
      maxAttempts: TRIES,
      retryMode: 'standard',
      // Other stores than Amazon's do not know the newer checksums.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      expectContinueHeader: false,
      followRegionRedirects: false,
      disableS3ExpressSessionAuth: true,
      defaultsMode: 'standard',
      useDualstackEndpoint: false,
      useFipsEndpoint: false,
      useArnRegion: false,
      authSchemePreference: ['aws.auth#sigv4'],
      sigv4aSigningRegionSet: [region],
      userAgentAppId: 'oscar',
    });
  }

  #handler(agents: Agents): NodeHttpHandler {
    const known = this.#handlers.get(agents);
    if (known) return known;
    const made = new NodeHttpHandler({
      httpAgent: agents.http,
      httpsAgent: agents.https,
      socketTimeout: IDLE_DEADLINE,
      requestTimeout: REQUEST_DEADLINE,
      throwOnRequestTimeout: true,
    });
    this.#handlers.set(agents, made);
    return made;
  }
}

function fingerprint(access: S3Access): string {
  const { endpoint = '', region, accessKey, secretKey, sessionToken, verify, guarded } = access;
  const keys = [accessKey.reveal(), secretKey.reveal(), sessionToken?.reveal() ?? ''];
  return hash('sha256', JSON.stringify([endpoint, region, ...keys, verify, guarded]));
}

import { randomBytes } from 'node:crypto';
import { Secret } from '../../../lib/secret.ts';
import type { Service } from '../../../model/service/index.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { ApiError, findRejection, toStoreError } from '../client/api-error.ts';
import { CONFIG_MAP, type KubeObject, SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, describeObject, removeObject, replaceObject } from '../client/writes.ts';

import {
  buildKnativeService,
  DIGEST,
  isCalledHere,
  KNATIVE_SERVICE,
  type KnativeService,
  type KnativeSettings,
  TOKEN_KEY,
  tokenName,
} from './knative-service.ts';

export const KNATIVE_NOT_INSTALLED =
  'SERVERLESS_BACKEND is knative, but this cluster has no Knative Serving: install it, or leave that setting out';

/** How many tokens are cached. */
const MOST_TOKENS = 1_000;

/** Manages the Knative Service of each service that is called here, and the token of its pods. */
export class KnativeServices {
  readonly #api: Api;
  readonly #settings: KnativeSettings;
  readonly #tokens = new Map<string, Secret>();

  constructor(api: Api, settings: KnativeSettings) {
    this.#api = api;
    this.#settings = settings;
  }

  /** Whether the API server knows Knative Services. */
  async isInstalled(): Promise<boolean> {
    try {
      await this.#api.page(KNATIVE_SERVICE, {}, { limit: 1, metadataOnly: true });
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return false;
      throw toStoreError(error, 'look for Knative Serving');
    }
  }

  /** The digest of the wanted Knative Service, to compare it with the existing one. */
  digestFor(service: Service, definition: Stored<KubeObject>): string | undefined {
    if (!isCalledHere(service)) return undefined;
    return buildKnativeService(service, definition, this.#settings).metadata.annotations?.[DIGEST];
  }

  /** Creates, changes or removes the Knative Service as the service requires. Calling it again is a no-op. */
  async ensure(service: Service, definition: Stored<KubeObject>): Promise<void> {
    if (!isCalledHere(service)) return this.remove(definition);
    try {
      await this.#ensureToken(service, definition);
      await this.#ensureService(buildKnativeService(service, definition, this.#settings), definition);
    } catch (error) {
      if (error instanceof StoreError && error.code === 'absent' && !(await this.isInstalled()))
        throw new StoreError('unavailable', KNATIVE_NOT_INSTALLED, { cause: error });
      throw toRejection(error) ?? error;
    }
  }

  /**
   * Throws `refused` if Knative rejects the Knative Service of a changed definition (dry run). Other errors are ignored, and
   * an unchanged one is not checked, because it may be rejected for reasons that the change did not cause.
   */
  async checkUpdate(next: Service, before: Service, definition: Stored<KubeObject>): Promise<void> {
    if (!isCalledHere(next) || this.digestFor(next, definition) === this.digestFor(before, definition)) return;
    const wanted = buildKnativeService(next, definition, this.#settings);
    const { namespace, name } = wanted.metadata;
    try {
      const there = await this.#get<KnativeService>(KNATIVE_SERVICE, { namespace, name });
      if (there) await this.#api.put(KNATIVE_SERVICE, { namespace, name }, carriedOn(wanted, there), DRY_RUN);
      else await this.#api.post(KNATIVE_SERVICE, namespace, wanted, DRY_RUN);
    } catch (error) {
      const refusal = toRejection(toStoreError(error, `change ${describeObject(KNATIVE_SERVICE, wanted)}`));
      if (refusal) throw refusal;
    }
  }

  /** Kubernetes would also collect it, some time after the definition is removed. */
  async remove(definition: Stored<KubeObject>): Promise<void> {
    const { namespace, name } = definition.metadata;
    const there = await this.#get(KNATIVE_SERVICE, { namespace, name });
    if (there && isOwnedBy(there, definition))
      await removeObject(this.#api, KNATIVE_SERVICE, there, { anyVersion: true });
  }

  /** The token in the Secret of this name; undefined when there is none. */
  async token(namespace: string, name: string): Promise<Secret | undefined> {
    const known = this.#tokens.get(name);
    if (known) return known;
    const object = await this.#get<SecretObject>(SECRET, { namespace, name });
    const text = Buffer.from(object?.data?.[TOKEN_KEY] ?? '', 'base64').toString();
    if (text === '') return undefined;
    const token = new Secret(text);
    // Some belong to removed services; the others are read again.
    if (this.#tokens.size >= MOST_TOKENS) this.#tokens.clear();
    this.#tokens.set(name, token);
    return token;
  }

  /** Call when a pod rejected the token: the Secret was changed. */
  forgetToken(name: string): void {
    this.#tokens.delete(name);
  }

  async #ensureToken(service: Service, definition: Stored<KubeObject>): Promise<void> {
    const { apiVersion, kind } = CONFIG_MAP;
    const { name, uid } = definition.metadata;
    if (await this.token(service.namespace, tokenName(service))) return;
    // Another manager may create it at the same time: the existing one counts.
    await createObject(this.#api, SECRET, {
      metadata: {
        name: tokenName(service),
        namespace: service.namespace,
        ownerReferences: [{ apiVersion, kind, name, uid }],
      },
      type: 'Opaque',
      data: { [TOKEN_KEY]: Buffer.from(randomBytes(32).toString('base64url')).toString('base64') },
    });
  }

  async #ensureService(wanted: KnativeService, definition: Stored<KubeObject>): Promise<void> {
    for (;;) {
      if ((await createObject(this.#api, KNATIVE_SERVICE, wanted)) !== 'exists') return;
      const { namespace, name } = wanted.metadata;
      const there = await this.#get<KnativeService>(KNATIVE_SERVICE, { namespace, name });
      if (!there) continue;
      // It belongs to an earlier service of that name, and Kubernetes has not collected it yet. A Go manager sets no owner.
      const isLeft = there.metadata.ownerReferences?.length && !isOwnedBy(there, definition);
      if (isLeft) {
        await removeObject(this.#api, KNATIVE_SERVICE, there, { anyVersion: true });
        continue;
      }
      if (there.metadata.annotations?.[DIGEST] === wanted.metadata.annotations?.[DIGEST]) return;
      const written = await replaceObject(this.#api, KNATIVE_SERVICE, carriedOn(wanted, there), there);
      if (written !== 'conflict' && written !== 'absent') return;
    }
  }

  async #get<T extends KubeObject>(kind: typeof SECRET, place: { namespace?: string | undefined; name: string }) {
    return this.#api.get<T>(kind, place).catch((error: unknown) => {
      throw toStoreError(error, `read ${kind.kind} ${place.name} in namespace ${place.namespace}`);
    });
  }
}

const DRY_RUN = { dryRun: 'All' } as const;

/** A final rejection by a webhook of Knative or a policy of the cluster: the user must see it, and retries do not help. */
function toRejection(error: unknown): StoreError | undefined {
  const refusal = findRejection(error);
  const isFinal = refusal?.final && !(error instanceof StoreError && error.code === 'absent');
  return isFinal
    ? new StoreError('refused', `Knative does not take it: ${refusal.message}`, { cause: error })
    : undefined;
}

const isOwnedBy = ({ metadata }: Stored<KubeObject>, definition: Stored<KubeObject>) =>
  metadata.ownerReferences?.some(({ uid }) => uid === definition.metadata.uid) ?? false;

/** Keeps the annotations of Knative, which rejects an update without them. */
function carriedOn(wanted: KnativeService, { metadata }: Stored<KubeObject>): KnativeService {
  const kept = Object.entries(metadata.annotations ?? {}).filter(([key]) => key.includes('knative.dev/'));
  return {
    ...wanted,
    metadata: {
      ...wanted.metadata,
      annotations: { ...Object.fromEntries(kept), ...wanted.metadata.annotations },
      resourceVersion: metadata.resourceVersion,
    },
  };
}

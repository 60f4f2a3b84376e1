import assert from 'node:assert/strict';
import {
  GetBucketNotificationConfigurationCommand,
  GetBucketTaggingCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { type Minio, ROOT } from '../minio/minio.ts';
import type { Admin } from './admin.ts';
import { eventually } from './kill-rounds.ts';

interface Item {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
    readonly deletionTimestamp?: string;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly status?: { readonly phase?: string; readonly succeeded?: number; readonly failed?: number };
}

const KINDS = {
  ConfigMap: '/api/v1/configmaps',
  Secret: '/api/v1/secrets',
  PodTemplate: '/api/v1/podtemplates',
  Pod: '/api/v1/pods',
  Job: '/apis/batch/v1/jobs',
};

/** Objects of Kubernetes itself, not of managers. */
const FOREIGN = /^kube-|kube-root-ca\.crt$/;

const STAGING = 'oscar-staging';

interface ExpectedEntries {
  readonly name: string;
  /** Where the manager was killed, for messages of failures. */
  readonly at: string;
  readonly clean: readonly string[];
}

interface InventoryEntry {
  readonly line: string;
  /** The whole object as text. */
  readonly text: string;
}

/** Lists the objects of services at the API server and in the store, independently of the code under test. */
export class ObjectInventory {
  readonly #admin: Admin;
  readonly #store: ReturnType<typeof storeClient>['client'];

  constructor(admin: Admin, minio: Minio) {
    this.#admin = admin;
    this.#store = storeClient(minio, ROOT).client;
  }

  /** Everything, except namespaces of users and objects about users. */
  async all(): Promise<string[]> {
    return (await this.#listEverything()).map(({ line }) => line).toSorted();
  }

  /** The objects of these names, in a form that is equal for all services in the same state. */
  async forNames<T extends string>(names: readonly T[]): Promise<Record<T, string[]>> {
    const everything = await this.#listEverything();
    const found = names.map((name) => {
      const its = everything.filter(({ text }) => text.includes(name));
      return [name, its.map(({ line }) => withoutIds(line.replaceAll(name, '*'))).toSorted()];
    });
    return Object.fromEntries(found) as Record<T, string[]>;
  }

  async forName(name: string): Promise<string[]> {
    return (await this.forNames([name]))[name] ?? [];
  }

  /** Waits until the leader has recorded that the service's input is being watched. */
  async waitUntilSwept(name: string): Promise<void> {
    await eventually(async () => assert.ok((await this.forName(name)).some((each) => each.includes('/sweep/'))));
  }

  /** Waits until each name has exactly the expected objects. */
  async expectOnly(wanted: readonly ExpectedEntries[]): Promise<void> {
    await eventually(async () => {
      const there = await this.forNames(wanted.map(({ name }) => name));
      const seen = wanted.map(({ name, at, clean }) => ({ at, its: there[name], clean }));
      assert.deepEqual(
        seen.filter(({ its, clean }) => its?.join() !== clean.join()),
        [],
      );
    });
  }

  async #listEverything(): Promise<InventoryEntry[]> {
    const objects = Object.entries(KINDS).map(async ([kind, path]) => {
      const { items } = (await this.#admin.do('GET', path)) as unknown as { items: Item[] };
      return items
        .filter(({ metadata }) => !FOREIGN.test(metadata.namespace) && !FOREIGN.test(metadata.name))
        .map((item) => ({ line: toLine(kind, item), text: JSON.stringify(item) }));
    });
    return (await Promise.all([...objects, this.#listStore()])).flat();
  }

  async #listStore(): Promise<InventoryEntry[]> {
    const { Buckets = [] } = await this.#store.send(new ListBucketsCommand());
    const traces = await Promise.all(Buckets.map(({ Name = '' }) => this.#listBucket(Name).catch(ignoreMissingBucket)));
    return traces.flat();
  }

  async #listBucket(Bucket: string): Promise<InventoryEntry[]> {
    const { Contents = [] } = await this.#store.send(new ListObjectsV2Command({ Bucket }));
    const keys = Contents.map(({ Key }) => `object ${Bucket}/${Key}`);
    if (Bucket === STAGING) return keys.map((line) => ({ line, text: line }));
    const none = () => ({ TagSet: [] });
    const { TagSet = [] } = await this.#store.send(new GetBucketTaggingCommand({ Bucket })).catch(none);
    const rules = await this.#store.send(new GetBucketNotificationConfigurationCommand({ Bucket }));
    const tags = TagSet.map(({ Key, Value }) => `${Key}=${Value}`).toSorted();
    const told = (rules.QueueConfigurations ?? []).map(
      ({ QueueArn, Events, Filter }) => `${QueueArn} ${Events?.join()} ${JSON.stringify(Filter?.Key?.FilterRules)}`,
    );
    return [`bucket ${Bucket} ${tags.join()} ${told.toSorted().join()}`, ...keys].map((line) => ({ line, text: line }));
  }
}

function ignoreMissingBucket(error: unknown): InventoryEntry[] {
  if (error instanceof S3ServiceException && error.name === 'NoSuchBucket') return [];
  throw error;
}

function toLine(kind: string, { metadata, data = {}, status = {} }: Item): string {
  const { namespace, annotations, finalizers = [], deletionTimestamp } = metadata;
  // The name of some objects is a digest of their key.
  const name = annotations?.['oscar.grycap/key'] ?? metadata.name;
  const { phase = '', succeeded, failed } = status;
  const state = [phase, succeeded && 'succeeded', failed && 'failed', deletionTimestamp && 'deleting'].filter(Boolean);
  const lists = [Object.keys(data).toSorted(), finalizers, state].map((each) => each.join());
  return [kind, `${namespace}/${name}`, ...lists].join(' ').trimEnd();
}

const withoutIds = (line: string) => line.replaceAll(/[0-9a-f-]{32,64}/g, '#');

import assert from 'node:assert/strict';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import type { Admin } from '../../test/kubernetes/admin.ts';

interface Container {
  readonly [field: string]: unknown;
}

interface PodSpec {
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly unknown[];
  readonly [field: string]: unknown;
}

/** What the manager has made for one attempt, to make more of the same without it. */
export interface AttemptPattern {
  /** Of the attempt and of all that it consists of. */
  readonly name: string;
  readonly namespace: string;
  readonly spec: PodSpec;
  /** What is in its Secret. */
  readonly data: Readonly<Record<string, string>>;
}

interface Named {
  readonly metadata: { readonly name: string };
}

/** A busy machine takes its time with a pod. */
const PATIENCE_MS = 120_000;

/** Seldom enough that the looks are no load. */
const LOOK_EVERY_MS = 50;

const until = <T>(check: () => Promise<T>): Promise<T> => eventually(check, PATIENCE_MS, LOOK_EVERY_MS);

/** Of the attempt of that name, as soon as it has its pod: later, the manager changes some of it. */
export async function attemptPattern(admin: Admin, namespace: string, name: string): Promise<AttemptPattern> {
  const path = (plural: string) => `/api/v1/namespaces/${namespace}/${plural}/${name}`;
  const { spec } = (await until(() => admin.do('GET', path('pods')))) as unknown as { spec: PodSpec };
  const { data } = (await admin.do('GET', path('secrets'))) as unknown as Pick<AttemptPattern, 'data'>;
  // Where it has been put is no part of what it is.
  const { nodeName: _, ...rest } = spec;
  return { name, namespace, data, spec: rest };
}

/**
 * Jobs that Kubernetes runs itself. None of them has a mark by which the manager would take it, or its pod, for one of its
 * own.
 */
export class PlainJobs {
  readonly #admin: Admin;
  readonly #pattern: AttemptPattern;

  constructor(admin: Admin, pattern: AttemptPattern) {
    this.#admin = admin;
    this.#pattern = pattern;
  }

  /** Makes what the pod of {@link same} reads, which has to be there before. */
  async prepare(name: string): Promise<void> {
    await this.#admin.do('POST', this.#path('/api/v1', 'secrets'), { metadata: { name }, data: this.#pattern.data });
  }

  /** With the same pod: all of its containers, volumes and limits. */
  async same(name: string): Promise<string> {
    const { name: known, spec } = this.#pattern;
    return this.#create(name, JSON.parse(JSON.stringify(spec).replaceAll(known, name)) as PodSpec);
  }

  /** With nothing but the container of the user, which runs this shell. */
  async alone(name: string, shell: string): Promise<string> {
    const { spec } = this.#pattern;
    const [container] = spec.containers;
    const { volumeMounts: _, ...rest } = container ?? {};
    const only = {
      ...rest,
      env: [{ name: 'JOB_UUID', value: name }],
      command: ['/bin/sh', '-c', shell],
    };
    return this.#create(name, { ...spec, initContainers: [], containers: [only], volumes: [] });
  }

  /** Waits until it has ended well, and removes it; resolves when no pod is left. */
  async remove(name: string): Promise<void> {
    const path = `${this.#path('/apis/batch/v1', 'jobs')}/${name}`;
    await until(async () => {
      const { status } = (await this.#admin.do('GET', path)) as { status?: { succeeded?: number; failed?: number } };
      assert.equal(status?.succeeded, 1, `the Job ${name} has not ended well: ${JSON.stringify(status)}`);
    });
    await this.#admin.do('DELETE', `${path}?propagationPolicy=Background`);
    // Only some have one.
    await this.#admin.ask('DELETE', `${this.#path('/api/v1', 'secrets')}/${name}`);
    await this.noPods();
  }

  /** Resolves when no pod is left. */
  async noPods(): Promise<void> {
    await until(async () => {
      const { items } = (await this.#admin.do('GET', this.#path('/api/v1', 'pods'))) as unknown as { items: Named[] };
      assert.deepEqual(
        items.map(({ metadata }) => metadata.name),
        [],
      );
    });
  }

  async #create(name: string, spec: PodSpec): Promise<string> {
    const body = { metadata: { name }, spec: { backoffLimit: 0, template: { spec } } };
    await this.#admin.do('POST', this.#path('/apis/batch/v1', 'jobs'), body);
    return name;
  }

  #path(group: string, plural: string): string {
    return `${group}/namespaces/${this.#pattern.namespace}/${plural}`;
  }
}

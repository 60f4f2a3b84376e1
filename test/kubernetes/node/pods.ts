import { randomUUID } from 'node:crypto';
import { eventually } from '../../../src/ports/conformance/eventually.ts';
import { BUSYBOX } from '../../docker/busybox.ts';
import type { Admin } from '../admin.ts';

/** A pod needs about 2 s to start and to be reported as ended. The limit allows for a busy machine. */
const PATIENCE_MS = 90_000;

export interface PodStatus {
  readonly phase: string;
  readonly reason?: string;
  readonly podIP?: string;
  readonly containerStatuses?: readonly ContainerStatus[];
  readonly initContainerStatuses?: readonly ContainerStatus[];
}

interface ContainerStatus {
  readonly name: string;
  readonly started?: boolean;
  readonly state: { readonly terminated?: Ended; readonly running?: unknown };
}

interface Ended {
  readonly exitCode: number;
  readonly reason?: string;
  readonly startedAt: string;
  readonly finishedAt: string;
}

/** A test's own namespace, and its pods. */
export class Pods {
  readonly namespace: string;
  readonly #admin: Admin;

  private constructor(admin: Admin, namespace: string) {
    this.#admin = admin;
    this.namespace = namespace;
  }

  static async inNewNamespace(admin: Admin): Promise<Pods> {
    const namespace = `test-${randomUUID().slice(0, 8)}`;
    await admin.do('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
    // The API server rejects pods until the namespace has its default service account.
    await eventually(() => admin.do('GET', `/api/v1/namespaces/${namespace}/serviceaccounts/default`), PATIENCE_MS);
    return new Pods(admin, namespace);
  }

  /** Creates a pod with one busybox container that runs the script; `more` overrides fields of the spec. */
  async create(name: string, script: string, more: Readonly<Record<string, unknown>> = {}): Promise<void> {
    await this.#admin.do('POST', this.path(), { metadata: { name }, spec: podSpec(script, more) });
  }

  async status(name: string): Promise<PodStatus> {
    return (await this.#admin.do('GET', this.path(name)))['status'] as PodStatus;
  }

  /** Waits until the condition is true of the pod's status, and returns the status. */
  async waitFor(name: string, isSo: (status: PodStatus) => boolean): Promise<PodStatus> {
    return await eventually(
      async () => {
        const status = await this.status(name);
        if (!isSo(status)) throw new Error(`${name} is ${JSON.stringify(status)}`);
        return status;
      },
      PATIENCE_MS,
      50,
    );
  }

  async waitUntilEnded(name: string): Promise<PodStatus> {
    return await this.waitFor(name, ({ phase }) => phase === 'Succeeded' || phase === 'Failed');
  }

  /** Waits until the log contains the text, and returns the log. */
  async waitForOutput(name: string, words: string): Promise<string> {
    return await eventually(
      async () => {
        const said = await this.log(name);
        if (!said.includes(words)) throw new Error(`the log of ${name} is: ${said}`);
        return said;
      },
      PATIENCE_MS,
      50,
    );
  }

  async log(name: string, container = 'main'): Promise<string> {
    const { text } = await this.#admin.do('GET', `${this.path(name)}/log?container=${container}`);
    return String(text);
  }

  path(name?: string): string {
    const all = `/api/v1/namespaces/${this.namespace}/pods`;
    return name === undefined ? all : `${all}/${name}`;
  }
}

export function podSpec(script: string, more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const { container, ...spec } = more;
  return {
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', image: BUSYBOX, command: ['sh', '-c', script], ...(container as object | undefined) }],
    ...spec,
  };
}

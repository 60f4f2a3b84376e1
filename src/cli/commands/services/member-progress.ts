import { setTimeout as pause } from 'node:timers/promises';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { memberName, readMembers } from './seen.ts';

/** Often enough for somebody who looks on. */
const LOOK_MS = 500;

/** How far the members of a service are that is being made or changed, in one line, until it is disposed of. */
export class MemberProgress implements Disposable {
  readonly #ending = new AbortController();
  #line = '';

  constructor(cluster: ClusterClient, service: string) {
    void this.#watch(cluster, service);
  }

  get line(): string {
    return this.#line;
  }

  async #watch(cluster: ClusterClient, service: string): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      // It is told while others wait for something: that it is not there yet, or nobody answers, is theirs to say.
      const members = await readMembers(cluster, service).catch(() => []);
      this.#line = members.map((each) => `${memberName(each)} ${each.state}`).join(', ');
      await pause(LOOK_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  [Symbol.dispose](): void {
    this.#ending.abort();
  }
}

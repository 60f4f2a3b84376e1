import { setImmediate as turn } from 'node:timers/promises';
import { type Backlog, type EventSource, MAX_COUNTED_EVENTS, type PendingEvent } from '../../../ports/index.ts';
import type { ObjectStoreServer } from '../../../s3-server/index.ts';

/** Events that are counted without a pause. Other requests wait for about a millisecond meanwhile. */
const COUNTED_AT_ONCE = 500;

type Outbox = Pick<ObjectStoreServer, 'takeEvents' | 'ackEvents' | 'onEvents'>;

/** The outbox of the embedded store, which writes each event in the transaction of its object. */
export class EmbeddedEvents implements EventSource {
  readonly #outbox: Outbox;

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  async take(limit: number, after?: number): Promise<PendingEvent[]> {
    return this.#outbox.takeEvents(limit, after).map(({ seq, event }) => ({ number: seq, json: Buffer.from(event) }));
  }

  async acknowledge(numbers: readonly number[]): Promise<void> {
    await this.#outbox.ackEvents(numbers);
  }

  onEvents(listener: () => void): () => void {
    return this.#outbox.onEvents(listener);
  }

  async backlog(): Promise<Backlog> {
    const [oldest] = this.#outbox.takeEvents(1);
    let events = 0;
    let after: number | undefined;
    do {
      const some = this.#outbox.takeEvents(COUNTED_AT_ONCE, after);
      events += some.length;
      after = some.at(-1)?.seq;
      if (some.length < COUNTED_AT_ONCE) break;
      await turn();
    } while (events < MAX_COUNTED_EVENTS);
    return { events, ...(oldest && { oldestAt: oldest.modifiedAt }) };
  }
}

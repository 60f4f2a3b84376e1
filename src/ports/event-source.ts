/** A store that keeps its events until they are acknowledged. */
export interface EventSource {
  /** The oldest that are not acknowledged, in order; `after` skips up to that number. The same ones again until they are. */
  take(limit: number, after?: number): Promise<PendingEvent[]>;

  /** They are not given out again. Acknowledging what is not there is fine. */
  acknowledge(numbers: readonly number[]): Promise<void>;

  /** Wakes the listener when there are new events. It may be woken for nothing. Call what it returns to end that. */
  onEvents(listener: () => void): () => void;

  backlog(): Promise<Backlog>;
}

export interface PendingEvent {
  /** Grows from event to event. */
  readonly number: number;
  /** JSON, as MinIO would send it. */
  readonly json: Uint8Array;
}

/** What is not acknowledged yet. */
export interface Backlog {
  /** How many there are, up to {@link MAX_COUNTED_EVENTS}. */
  readonly events: number;
  /** When the object of the oldest was written, in milliseconds; absent when there is none. */
  readonly oldestAt?: number;
}

/** Nobody does anything else about a million than about this many, and counting costs. */
export const MAX_COUNTED_EVENTS = 10_000;

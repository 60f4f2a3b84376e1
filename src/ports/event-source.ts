/** An object store that keeps its events until they are acknowledged. */
export interface EventSource {
  /** The oldest events that are not acknowledged, in order, with numbers above `after`. Repeats them until they are acknowledged. */
  take(limit: number, after?: number): Promise<PendingEvent[]>;

  /** Removes events; unknown numbers are ignored. */
  acknowledge(numbers: readonly number[]): Promise<void>;

  /** Calls the listener when there may be new events. Returns a function that unsubscribes. */
  onEvents(listener: () => void): () => void;

  backlog(): Promise<Backlog>;
}

export interface PendingEvent {
  /** Increases from event to event. */
  readonly number: number;
  /** JSON, in the form of MinIO. */
  readonly json: Uint8Array;
}

/** The events that are not acknowledged yet. */
export interface Backlog {
  /** How many there are, up to {@link MAX_COUNTED_EVENTS}. */
  readonly events: number;
  /** When the object of the oldest was written, in milliseconds; absent when there is none. */
  readonly oldestAt?: number;
}

/** Counting costs time, and a larger number would change no decision. */
export const MAX_COUNTED_EVENTS = 10_000;

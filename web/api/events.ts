import { request } from './client.ts';

/** One server-sent event. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

export interface EventStreamOptions {
  readonly onEvent: (event: ServerEvent) => void;
  /** Called when the stream is open, and when it is lost. */
  readonly onState: (open: boolean) => void;
  readonly signal: AbortSignal;
}

/** Longer: a restart of the manager is noticed late. Shorter: many pages ask a manager that is starting. */
const LONGEST_WAIT_MS = 10_000;
const FIRST_WAIT_MS = 500;

/**
 * Follows `/system/events` until aborted, and resumes after a lost connection where it was. EventSource cannot send an
 * Authorization header, so this reads the stream with fetch.
 */
export async function followEvents({ onEvent, onState, signal }: EventStreamOptions): Promise<void> {
  let lastId = '';
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      const response = await request('/system/events', {
        headers: lastId === '' ? {} : { 'last-event-id': lastId },
        signal,
      });
      onState(true);
      wait = FIRST_WAIT_MS;
      for await (const message of readMessages(response)) {
        if (message.id !== undefined) lastId = message.id;
        if (message.data !== '') onEvent(message);
      }
    } catch {
      // The loop tries again: a wrong credential ends the session, which aborts the signal.
    }
    if (signal.aborted) return;
    onState(false);
    await pause(wait * (0.5 + Math.random()), signal);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

interface Message extends ServerEvent {
  readonly id?: string;
}

async function* readMessages(response: Response): AsyncGenerator<Message, undefined> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) yield parseMessage(block);
  }
}

/** Exported for its test. */
export function parseMessage(block: string): Message {
  let [event, id] = ['message', undefined as string | undefined];
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const [, name, value = ''] = /^([^:]+): ?(.*)$/.exec(line) ?? [];
    if (name === 'event') event = value;
    else if (name === 'data') data.push(value);
    else if (name === 'id') id = value;
  }
  return { event, data: data.join('\n'), ...(id !== undefined && { id }) };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

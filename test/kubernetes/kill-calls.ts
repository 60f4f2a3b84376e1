import { setTimeout as pause } from 'node:timers/promises';
import { Outside } from '../support/jobs.ts';
import { type Answer, type CallOptions, call } from '../support/manager.ts';

const RETRY_MS = 500;

/** Retries while the manager answers that it is overloaded: then it has done nothing. */
export async function callWhileBusy(
  url: string,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer> {
  for (;;) {
    const answer = await call(url, method, path, options);
    if (answer.status !== 503 || !answer.text.includes('overloaded')) return answer;
    await pause(RETRY_MS);
  }
}

/** Retries all requests of an `Outside` in the same way. */
export class RetryingOutside extends Outside {
  readonly #url: string;

  constructor(url: string) {
    super(url);
    this.#url = url;
  }

  override call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    return callWhileBusy(this.#url, method, path, options);
  }
}

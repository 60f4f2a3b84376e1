import { setTimeout as pause } from 'node:timers/promises';
import { Outside } from '../support/jobs.ts';
import { type Answer, type CallOptions, call } from '../support/manager.ts';

const RETRY_MS = 500;

/** Asks again while the manager says that the machine is too busy: then nothing has been done. */
export async function callWhileBusy(
  url: string,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer> {
  for (;;) {
    const answer = await call(url, method, path, options);
    if (answer.status !== 503 || !answer.text.includes('too much to do')) return answer;
    await pause(RETRY_MS);
  }
}

/** The same for all that is done from outside. */
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

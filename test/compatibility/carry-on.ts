import type { RecordedRequest } from './exchanges.ts';

type Substitute = (request: RecordedRequest) => RecordedRequest;

/**
 * What is sent after an exchange that our manager answers otherwise, so that those behind it find what they need: a
 * request that we refuse once more without what we refuse; what only we make is removed again.
 */
const SUBSTITUTES: Readonly<Record<number, Substitute>> = {
  59: without('total_memory', 'total_cpu'),
  74: removing('/system/services/rec-err'),
  102: without('mount'),
  149: without('mount'),
  151: without('mount'),
  225: without('expose'),
  302: without('members'),
  305: without('members'),
  343: without('volume'),
  346: without('volume'),
  447: without('log_level'),
  508: without('expose'),
  529: without('log_level'),
  563: removing('/system/buckets/rec-b-over'),
  564: removing('/system/services/rec-over'),
  585: without('volume'),
  589: (request) => ({ ...request, body: request.body?.replace(/ trailing$/, '') ?? '' }),
};

export function substituteFor(n: number, request: RecordedRequest): RecordedRequest | undefined {
  return SUBSTITUTES[n]?.(request);
}

/** The same request without these keys of its body. */
function without(...keys: string[]): Substitute {
  return (request) => {
    const body: unknown = JSON.parse(request.body ?? '', (key, value: unknown) =>
      keys.includes(key) ? undefined : value,
    );
    return { ...request, body: JSON.stringify(body) };
  };
}

function removing(path: string): Substitute {
  return ({ headers }) => ({ method: 'DELETE', path, headers });
}

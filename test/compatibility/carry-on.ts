import type { RecordedRequest } from './exchanges.ts';

type Substitute = (request: RecordedRequest) => RecordedRequest;

/**
 * What is sent after an exchange that our manager answers differently, so that later exchanges find what they need. A
 * rejected request is sent again without the rejected part; what only we create is removed, and what only we remove is
 * created again.
 */
const SUBSTITUTES: Readonly<Record<number, Substitute>> = {
  59: without('total_memory', 'total_cpu'),
  74: removing('/system/services/rec-err'),
  102: without('mount'),
  149: without('mount'),
  151: without('mount'),
  225: without('expose'),
  281: addingMembersAgain,
  310: removing('/system/services/rec-star3'),
  343: without('volume'),
  346: without('volume'),
  447: without('log_level'),
  508: without('expose'),
  529: without('log_level'),
  563: removing('/system/buckets/rec-b-over'),
  564: removing('/system/services/rec-over'),
  585: without('volume'),
  589: replacing(/ trailing$/, ''),
  // Another user has already stored this token.
  606: replacing('dummy-token', 'token-of-bob'),
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

function replacing(text: string | RegExp, other: string): Substitute {
  return (request) => ({ ...request, body: request.body?.replace(text, other) ?? '' });
}

function removing(path: string): Substitute {
  return ({ headers }) => ({ method: 'DELETE', path, headers });
}

/** The members of `rec-star`, as they were. */
function addingMembersAgain({ path, headers }: RecordedRequest): RecordedRequest {
  const member = (cluster_id: string, service_name: string, priority: number) => ({
    type: 'oscar',
    cluster_id,
    service_name,
    priority,
  });
  const members = [member('oscar-jetson', 'rec-w1', 10), member('oscar-graspi', 'rec-w2', 1)];
  return { method: 'POST', path, headers, body: JSON.stringify({ members }) };
}

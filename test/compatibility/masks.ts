/** Values that are known only while a manager runs. */
export interface Known {
  /** Address of the manager. */
  readonly endpoint: string;
  /** Address of its store. */
  readonly store: string;
  /** The administrator's access key for the store. */
  readonly accessKey: string;
  readonly issuer: string;
}

/** An address where no server listens. */
export const NOWHERE = '127.0.0.1:9';

const DATE = String.raw`\d{4}-\d{2}-\d{2}`;
const CLOCK = String.raw`\d{2}:\d{2}:\d{2}`;

/** The parts that differ between two runs of one manager, and what the recording has instead. */
const MASKS: readonly (readonly [RegExp, string])[] = [
  [/(?<="secret_key":")(?!hidden")[^"]+/g, '<secret_key>'],
  [/(?<="next_page":")[^"]+/g, '<page-token>'],
  [/(?<=X-Amz-Credential=)[^\\&"]+/g, '<credential>'],
  [/(?<=X-Amz-Signature=)[0-9a-f]+/g, '<signature>'],
  [/(?<=X-Amz-Date=)\d{8}T\d{6}Z/g, '<time>'],
  [/\b[0-9a-f]{64}\b/g, '<token64>'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, '<uuid>'],
  [new RegExp(`${DATE} ${CLOCK}(\\.\\d+)? \\+0000 UTC`, 'g'), '<time-utc>'],
  [new RegExp(`${DATE}T${CLOCK}\\.\\d+(Z|[+-]\\d{2}:\\d{2})`, 'g'), '<time-nano>'],
  [new RegExp(`${DATE}T${CLOCK}(Z|[+-]\\d{2}:\\d{2})`, 'g'), '<time>'],
];

/**
 * Masks our text as the recording is masked. `asked` is the path of the request: the answer repeats times of the path, and
 * the recording has them unmasked.
 */
export function mask(text: string, known: Known, asked = ''): string {
  const addresses = text
    .replaceAll(known.store, '<minio-endpoint>')
    .replaceAll(known.endpoint, '<endpoint>')
    .replaceAll(known.issuer, '<issuer>')
    .replaceAll(`//${NOWHERE}/`, '//<address>/')
    .replaceAll(`"access_key":"${known.accessKey}"`, '"access_key":"<access_key>"');
  const masked = MASKS.reduce(
    (before, [pattern, name]) => before.replace(pattern, (found) => (asked.includes(found) ? found : name)),
    addresses,
  );
  return masked.replace(JOBS_BY_ID, inOrder);
}

const JOB = /"([^"]*)":\{[^{}]*\}/g;
const JOBS_BY_ID = new RegExp(`(?<="jobs":\\{)${JOB.source}(,${JOB.source})*(?=\\})`);

/** Jobs are listed by id, and the position of a random id among chosen ones is random. */
function inOrder(jobs: string): string {
  const named = [...jobs.matchAll(JOB)].map(([job, id = '']) => ({ job, id }));
  return named
    .toSorted((a, b) => (a.id === b.id ? 0 : a.id < b.id ? -1 : 1))
    .map(({ job }) => job)
    .join(',');
}

/** Sentences inside JSON may differ: where the recording has `<text>`, any text is equal. */
export function maskSentences(text: string, recorded: string): string {
  const keys = new Set([...recorded.matchAll(/"(\w+)":"<text>"/g)].map(([, key]) => key));
  return [...keys].reduce<string>(
    (masked, key) => masked.replace(new RegExp(`"${key}":"(?:[^"\\\\]|\\\\.)+"`, 'g'), `"${key}":"<text>"`),
    text,
  );
}

const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e[+-]?\d+)?`;

/** Numbers that depend on the machine: where the table has `<number>`, any number is equal. */
export function maskNumbers(text: string, expected: string): string {
  const keys = new Set([...expected.matchAll(/"(\w+)":"<number>"/g)].map(([, key]) => key));
  return [...keys].reduce<string>(
    (masked, key) => masked.replace(new RegExp(`"${key}":${NUMBER}(?=[,}])`, 'g'), `"${key}":"<number>"`),
    text,
  );
}

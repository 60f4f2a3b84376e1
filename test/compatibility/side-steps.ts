import type { Exchange, RecordedRequest } from './exchanges.ts';

/** A request between the recorded ones that is not in the recording, but whose effects later exchanges need. */
export interface Step {
  readonly request: RecordedRequest;
  /** What is then uploaded to the URL of the answer. */
  readonly upload?: string;
  /** The service that the upload starts. The next exchange waits until its job has ended. */
  readonly runs?: string;
}

/** The requests between the recorded exchanges, by the number of the exchange before. */
const STEPS: Readonly<Record<number, (request: RecordedRequest) => readonly Step[]>> = {
  // The presigned URLs were used.
  394: (request) => [{ request, upload: 'hello' }],
  395: (request) => [{ request, upload: 'hello' }],
  453: (request) => [{ request, upload: 'hello', runs: 'rec-pub' }],
  // Jobs for several pages.
  568: () => Array.from({ length: 5 }, () => ({ request: INVOKE_REC_MIN })),
  // Objects for several pages.
  572: () => ['a', 'b', 'c'].map((key) => ({ request: addressFor('rec-b-quota', key), upload: 'x' })),
  // Everything that was left was removed.
  614: () =>
    [
      '/system/services/rec-pub',
      '/system/services/rec-restr',
      '/system/buckets/rec-b-pub',
      '/system/buckets/rec-restr',
      '/system/buckets/rec-upd2',
    ].map((path) => ({ request: { method: 'DELETE', path, headers: ADMIN } })),
};

export function stepsAfter({ n, request }: Exchange): readonly Step[] {
  return STEPS[n]?.(request) ?? [];
}

const ADMIN = { Authorization: 'Basic <admin>' };

const INVOKE_REC_MIN: RecordedRequest = {
  method: 'POST',
  path: '/job/rec-min',
  headers: { Authorization: 'Bearer <token64 of the service>' },
  body: '{}',
};

function addressFor(bucket: string, key: string): RecordedRequest {
  return {
    method: 'POST',
    path: `/system/buckets/${bucket}/presign`,
    headers: { ...ADMIN, 'Content-Type': 'application/json' },
    body: JSON.stringify({ object_key: key, operation: 'upload' }),
  };
}

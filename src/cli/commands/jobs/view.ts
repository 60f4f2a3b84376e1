import type { Column } from '../../client/table.ts';
import { span } from '../units.ts';

/** What a manager says of a job, as far as it is shown. */
export interface ListedJob {
  readonly id: string;
  readonly service: string;
  readonly state: string;
  readonly message: string;
  readonly trigger: string;
  readonly object?: { readonly bucket: string; readonly key: string };
  readonly accepted_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
  readonly exit_code?: number;
  readonly attempts: readonly { readonly place: string }[];
}

export const FINAL: ReadonlySet<string> = new Set(['succeeded', 'failed', 'cancelled']);

const at = (time: string | undefined) => (time === undefined ? Number.NaN : Date.parse(time));

export const JOB_COLUMNS: readonly Column<ListedJob>[] = [
  { title: 'JOB', of: ({ id }) => id },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'AGE', of: ({ accepted_at }) => span(Date.now() - at(accepted_at)) },
  {
    title: 'TOOK',
    of: ({ started_at, finished_at }) => (started_at && finished_at ? span(at(finished_at) - at(started_at)) : ''),
  },
  { title: 'WHERE', of: ({ attempts }) => attempts.at(-1)?.place ?? '' },
  { title: 'CAUSED BY', of: ({ trigger, object }) => (object ? `${object.bucket}/${object.key}` : trigger) },
  { title: 'EXIT', of: ({ exit_code }) => String(exit_code ?? ''), wide: true },
  { title: 'MESSAGE', of: ({ message }) => message, wide: true },
];

import type { FastifyRequest } from 'fastify';
import { type Cursor, JOB_STATES, type JobState } from '../cluster/index.ts';
import { HttpError } from './errors.ts';
import { queryOf } from './job-params.ts';

/** Proxies give up on an answer after a minute or more. */
const LONGEST_WAIT_SECONDS = 60;

/** Either a page of the jobs, or what has changed in them. */
export type JobsQuery =
  | { readonly page: { readonly states?: readonly JobState[]; readonly page?: string } }
  | { readonly changes: { readonly since: Cursor; readonly wait: number } };

export function readJobsQuery(request: FastifyRequest): JobsQuery {
  const [since, wait, state, page] = ['since', 'wait', 'state', 'page'].map((name) => queryOf(request, name));
  if (since === undefined) {
    if (wait !== undefined) throw bad('wait: only together with since, which is the cursor of an earlier answer');
    return { page: { ...(state !== undefined && { states: readStates(state) }), ...(page !== undefined && { page }) } };
  }
  if (state !== undefined || page !== undefined) {
    throw bad('since: not together with state or page, a job would leave the list unseen');
  }
  return { changes: { since: since as Cursor, wait: readWait(wait ?? '0') } };
}

function readStates(text: string): JobState[] {
  return text.split(',').map((word) => {
    const state = JOB_STATES.find((each) => each === word.trim());
    if (!state) throw bad(`state: must be one or more of ${JOB_STATES.join(', ')}, with commas between`);
    return state;
  });
}

/** In milliseconds. */
function readWait(text: string): number {
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (seconds <= LONGEST_WAIT_SECONDS) return seconds * 1000;
  throw bad(`wait: must be a number of seconds up to ${LONGEST_WAIT_SECONDS}`);
}

const bad = (problem: string) => new HttpError('bad-request', problem);

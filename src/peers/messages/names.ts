import { type Field, fields, type Read, text } from '../../lib/fields.ts';
import type { JobKey } from '../../model/job/index.ts';
import { serviceName } from '../../model/service/index.ts';
import type { AttemptKey } from '../delegation-ports.ts';

/** Names of jobs stand in paths, in headers and in names of pods. */
export const jobId = text('the id of a job', /^[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$/);

export const epoch: Field<number> = {
  is: 'a whole number from 1 on',
  read: (raw) => (Number.isSafeInteger(raw) && Number(raw) >= 1 ? Number(raw) : undefined),
};

export const job: Field<JobKey> = {
  is: '<service>/<id of the job>',
  read: (raw) => {
    const [service, id, ...more] = typeof raw === 'string' ? raw.split('/') : [];
    if (more.length > 0 || serviceName.read(service) === undefined || jobId.read(id) === undefined) return undefined;
    return { service: String(service), id: String(id) };
  },
};

export const writeJob = ({ service, id }: JobKey) => `${service}/${id}`;

/** The query of a request for a permit. */
export const writeAttempt = ({ job: key, epoch: at }: AttemptKey) => `job=${writeJob(key)}&epoch=${at}`;

const readWireAttempt = fields<AttemptKey>({ job, epoch: { ...epoch, read: (raw) => epoch.read(parseNumber(raw)) } });

/** From the parameters of a query, or of a path. */
export const readAttempt = (raw: unknown): Read<AttemptKey> => readWireAttempt(raw);

const parseNumber = (raw: unknown) =>
  typeof raw === 'string' && /^[1-9]\d{0,15}$/.test(raw) ? Number(raw) : undefined;

/** Why something was not done, for programs. */
export const readCode = fields<{ readonly code: string }>({ code: text('a code', /^[a-z-]{1,64}$/) });

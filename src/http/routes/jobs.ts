import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import {
  cancelJob,
  changedJobs,
  currentCursor,
  findJob,
  type Jobs,
  listAllJobs,
  listJobs,
  summarizeJob,
  viewJob,
} from '../../jobs/index.ts';
import { JOB_STATES } from '../../model/job/index.ts';
import { errors, noBody } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { beforeBody } from '../body.ts';
import type { OpenResponses } from '../open-answers.ts';
import {
  CursorParam,
  JobName,
  jobParams,
  MOST_JOBS,
  Name,
  nameParam,
  queryParam,
  readJobsQuery,
  readLimit,
  readStates,
} from '../params.ts';

export interface JobsDeps {
  readonly authenticator: Authenticator;
  readonly jobs: Jobs;
  /** Jobs in a page: `JOB_LISTING_LIMIT`. */
  readonly pageSize: number;
  readonly open: OpenResponses;
}

const tags = ['jobs'];

const Time = Type.String({ format: 'date-time' });
const State = Type.Enum([...JOB_STATES]);
const Course = {
  started_at: Type.Optional(Time),
  finished_at: Type.Optional(Time),
  exit_code: Type.Optional(Type.Integer()),
};

const SUMMARY = {
  id: Type.String(),
  service: Type.String(),
  state: State,
  phase: Type.Enum(['Pending', 'Running', 'Succeeded', 'Failed'], { description: 'the state as a pod phase' }),
  message: Type.String({ description: 'the current activity, or why the job ended' }),
  trigger: Type.Enum(['storage', 'job', 'run']),
  invoker: Type.Optional(Type.String({ description: 'who invoked it, if known and visible to the caller' })),
  invoker_claimed_by: Type.Optional(
    Type.String({ description: 'the member where the job entered, which claims who the invoker is' }),
  ),
  object: Type.Optional(Type.Object({ bucket: Type.String(), key: Type.String() })),
  place: Type.Optional(Type.String({ description: 'the cluster of the last attempt' })),
  accepted_at: Time,
  ...Course,
  cancelling: Type.Optional(Type.Boolean({ description: 'it was cancelled but has not ended yet' })),
};

const JobSummarySchema = Type.Object(SUMMARY, { title: 'JobSummary' });

const JobSchema = Type.Object(
  {
    ...SUMMARY,
    attempts: Type.Array(Type.Object({ name: Type.String(), epoch: Type.Integer(), place: Type.String(), ...Course })),
    decisions: Type.Array(
      Type.Object({
        at: Time,
        epoch: Type.Optional(Type.Integer({ description: 'the epoch of the attempt' })),
        policy: Type.String(),
        chosen: Type.Optional(Type.String()),
        candidates: Type.Array(
          Type.Object({
            member: Type.String(),
            score: Type.Optional(Type.Number()),
            refusal: Type.Optional(Type.String()),
            age: Type.Optional(Type.Integer({ description: 'the age of the data about its cluster, in seconds' })),
          }),
        ),
      }),
    ),
    timeline: Type.Array(
      Type.Object({
        state: State,
        at: Time,
        reason: Type.String(),
        message: Type.String(),
        place: Type.String(),
      }),
    ),
  },
  { title: 'Job' },
);

const JobsSchema = Type.Object({
  jobs: Type.Array(JobSchema),
  next_page: Type.Optional(Type.String()),
  gone: Type.Optional(Type.Array(Type.String(), { description: 'ids of jobs that were deleted; with `since`' })),
  cursor: Type.String({ description: 'for `since`' }),
});

const Filter = {
  state: Type.Optional(
    Type.String({
      description: `one or more of ${JOB_STATES.join(', ')}, separated by commas`,
      pattern: `^(${JOB_STATES.join('|')})(,(${JOB_STATES.join('|')}))*$`,
    }),
  ),
  page: CursorParam('`next_page` of the page before'),
};

const AllJobsQuerystring = Type.Object({
  ...Filter,
  service: Type.Optional(Type.String({ description: 'only jobs of this service' })),
  user: Type.Optional(
    Type.String({
      description: 'only jobs that this user caused, or that ran with their rights; for the administrator',
    }),
  ),
  limit: Type.Optional(Type.Integer({ description: 'jobs in a page', minimum: 1, maximum: MOST_JOBS })),
});

const AllJobsSchema = Type.Object(
  {
    jobs: Type.Array(JobSummarySchema),
    next_page: Type.Optional(
      Type.String({ description: 'absent on the last page; a page may be shorter than `limit`' }),
    ),
  },
  { title: 'AllJobs' },
);

const JobsQuerystring = Type.Object({
  ...Filter,
  since: CursorParam('`cursor` of an earlier answer: only what has changed; 410 if it is too old'),
  wait: Type.Optional(
    Type.Integer({ description: 'seconds to wait for a change; with `since`', minimum: 0, maximum: 60 }),
  ),
});

export function jobsRoutes(app: FastifyInstance, { authenticator, jobs, pageSize, open }: JobsDeps): void {
  const who = (request: FastifyRequest) => systemPrincipal(request, authenticator);

  const listAll = {
    operationId: 'listAllJobs',
    summary: 'Jobs of all services that the caller sees, newest first, without their attempts, decisions and timeline',
    tags,
    querystring: AllJobsQuerystring,
    response: { 200: AllJobsSchema, ...errors(403, 410) },
  };
  app.get('/system/jobs', { schema: listAll }, async (request) => {
    const principal = await who(request);
    const [service, user, state, page] = ['service', 'user', 'state', 'page'].map((name) => queryParam(request, name));
    const { items, next } = await listAllJobs(
      principal,
      {
        limit: readLimit(request) ?? pageSize,
        ...(service !== undefined && { service }),
        ...(user !== undefined && { user }),
        ...(state !== undefined && { states: readStates(state) }),
        ...(page !== undefined && { page }),
      },
      jobs,
    );
    return {
      jobs: items.map((record) => summarizeJob(record, principal)),
      ...(next !== undefined && { next_page: next }),
    };
  });

  const list = {
    operationId: 'listJobs',
    summary: 'Jobs of a service that the caller sees, newest first; or what has changed in them',
    tags,
    params: Name,
    querystring: JobsQuerystring,
    response: { 200: JobsSchema, ...errors(410) },
  };
  app.get('/system/jobs/:name', { schema: list }, async (request, reply) => {
    const principal = await who(request);
    const name = nameParam(request);
    const query = readJobsQuery(request);
    if ('changes' in query) {
      const wanted = { ...query.changes, signal: open.until(reply) };
      const changed = await changedJobs(principal, name, wanted, jobs);
      return {
        jobs: changed.jobs.map((record) => viewJob(record, principal)),
        gone: changed.gone.map(({ id }) => id),
        cursor: changed.cursor,
      };
    }
    const cursor = await currentCursor(jobs);
    const { items, next } = await listJobs(principal, name, { ...query.page, limit: pageSize }, jobs);
    return {
      jobs: items.map((record) => viewJob(record, principal)),
      ...(next !== undefined && { next_page: next }),
      cursor,
    };
  });

  const read = {
    operationId: 'getJob',
    summary: 'One job and its life',
    tags,
    params: JobName,
    response: { 200: JobSchema },
  };
  app.get('/system/jobs/:name/:id', { schema: read }, async (request) => {
    const principal = await who(request);
    const { name, id } = jobParams(request);
    return viewJob(await findJob(principal, name, id, jobs), principal);
  });

  const cancel = {
    operationId: 'cancelJob',
    summary: 'Cancel a job: at once if it waits, as soon as its script is gone if it runs; 409 if it has ended',
    tags,
    params: JobName,
    response: { 202: noBody('Cancelled, or about to be'), ...errors(403, 409) },
  };
  app.delete('/system/jobs/:name/:id', { schema: cancel, ...beforeBody(who) }, async (request, reply) => {
    const principal = await who(request);
    const { name, id } = jobParams(request);
    await cancelJob(principal, name, id, jobs);
    return reply.code(202).send();
  });
}

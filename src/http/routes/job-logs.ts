import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import { findJob, goJobView, type Jobs, listJobs, readLog, removeJob, removeJobs } from '../../jobs/index.ts';
import type { JobRecord } from '../../model/job/index.ts';
import type { LogOptions } from '../../ports/index.ts';
import { errors, noBody, plainText } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { beforeBody } from '../body.ts';
import { TEXT_TYPE } from '../go-json.ts';
import { flushHeadersFirst, type OpenResponses } from '../open-answers.ts';
import { CursorParam, Flag, JobName, jobParams, Name, nameParam, queryParam, readFlag } from '../params.ts';

export interface JobLogsDeps {
  readonly authenticator: Authenticator;
  readonly jobs: Jobs;
  /** Jobs in a page: `JOB_LISTING_LIMIT`. */
  readonly pageSize: number;
  readonly open: OpenResponses;
  /** The log of a job, on whichever cluster it ran. */
  readonly logOf?: ((record: JobRecord, options: LogOptions) => AsyncIterable<Uint8Array>) | undefined;
}

const tags = ['jobs'];

const OldJobSchema = Type.Object({
  status: Type.Enum(['Pending', 'Running', 'Succeeded', 'Failed']),
  creation_time: Type.String(),
  start_time: Type.Optional(Type.String()),
  finish_time: Type.Optional(Type.String()),
});

const OldPageSchema = Type.Object({
  jobs: Type.Record(Type.String(), OldJobSchema),
  next_page: Type.Optional(Type.String()),
});

export function jobLogsRoutes(app: FastifyInstance, deps: JobLogsDeps): void {
  const { authenticator, jobs, pageSize, open, logOf = (...log) => readLog(...log, jobs) } = deps;
  const who = (request: FastifyRequest) => systemPrincipal(request, authenticator);

  const list = {
    operationId: 'listJobLogs',
    summary: 'Jobs of a service that the caller sees, newest first',
    tags,
    params: Name,
    querystring: Type.Object({ page: CursorParam('`next_page` of the page before') }),
    response: { 200: OldPageSchema },
  };
  app.get('/system/logs/:name', { schema: list }, async (request) => {
    const principal = await who(request);
    const page = queryParam(request, 'page');
    // Synchronous invocations are left out, because the Go manager has no record of them.
    const triggers = ['job', 'storage'] as const;
    const query = { triggers, limit: pageSize, ...(page !== undefined && { page }) };
    const { items, next } = await listJobs(principal, nameParam(request), query, jobs);
    const views = items.map((record) => [record.id, goJobView(record)] as const);
    // Sorted, as Go encodes maps.
    const sorted = views.toSorted(([a], [b]) => (a < b ? -1 : 1));
    return { jobs: Object.fromEntries(sorted), ...(next !== undefined && { next_page: next }) };
  });

  const clear = {
    operationId: 'deleteJobs',
    summary: 'Delete jobs of a service with their logs',
    tags,
    params: Name,
    querystring: Type.Object({ all: Flag('not only those that ended well') }),
    response: { 204: noBody('Deleted'), ...errors(403) },
  };
  app.delete('/system/logs/:name', { schema: clear, ...beforeBody(who) }, async (request, reply) => {
    const principal = await who(request);
    await removeJobs(principal, nameParam(request), readFlag(request, 'all'), jobs);
    return reply.code(204).send();
  });

  const read = {
    operationId: 'getJobLog',
    summary: 'What the script of a job printed',
    tags,
    params: JobName,
    querystring: Type.Object({
      timestamps: Flag('each line begins with its time'),
      follow: Flag('the answer is a stream that ends with the job'),
    }),
    response: { 200: plainText('The log') },
  };
  app.get('/system/logs/:name/:id', { schema: read }, async (request, reply) => {
    const principal = await who(request);
    const { name, id } = jobParams(request);
    const record = await findJob(principal, name, id, jobs);
    const follow = readFlag(request, 'follow');
    const options = { timestamps: readFlag(request, 'timestamps'), follow, signal: open.until(reply) };
    const log = logOf(record, options);
    // Browsers must not interpret the output of a script as a web page of this manager.
    reply.type(TEXT_TYPE).header('x-content-type-options', 'nosniff');
    if (!follow) return reply.send(Readable.from(log, { objectMode: false }));
    // While the manager stops, the connection would be kept alive for another request.
    return reply
      .header('connection', 'close')
      .send(Readable.from(flushHeadersFirst(reply, log), { objectMode: false }));
  });

  const remove = {
    operationId: 'deleteJob',
    summary: 'Delete a job and its log; one that has not ended is cancelled',
    tags,
    params: JobName,
    response: { 204: noBody('Deleted'), ...errors(403, 409) },
  };
  app.delete('/system/logs/:name/:id', { schema: remove, ...beforeBody(who) }, async (request, reply) => {
    const principal = await who(request);
    const { name, id } = jobParams(request);
    await removeJob(principal, name, id, jobs);
    return reply.code(204).send();
  });
}

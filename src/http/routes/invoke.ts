import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { federationGuard, isWorker, type WorkerRecord } from '../../federation/index.ts';
import type { Authenticator, Principal } from '../../identity/index.ts';
import {
  type Delegated,
  eventTooLarge,
  type InvokeOptions,
  invokeService,
  type Jobs,
  submitDelegated,
  submitJob,
  type UpstreamOrigins,
} from '../../jobs/index.ts';
import type { JobKey } from '../../model/job/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { findService } from '../../services/index.ts';
import { errors, header, noBody, plainText } from '../answers.ts';
import { callerCredential, headerText, serviceBearer } from '../authentication.ts';
import { answerError } from '../errors.ts';
import { type ExecutionLog, toExecution } from '../execution-log.ts';
import { TEXT_TYPE } from '../go-json.ts';
import { abortOnDisconnect } from '../open-answers.ts';
import { Name, nameParam } from '../params.ts';
import { NEVER_SHED } from '../shedding.ts';

export interface InvokeDeps {
  readonly authenticator: Authenticator;
  readonly jobs: Jobs;
  /** How long a synchronous invocation may take. */
  readonly runTimeoutMs: number;
  readonly executions: ExecutionLog;
  /** Forwards a job that was sent to a worker to its coordinator. */
  readonly enter?: Enter | undefined;
  /** Go managers that delegate jobs whose files are in their stores. */
  readonly origins?: UpstreamOrigins | undefined;
  /** Reads the answer of a call that ran on another cluster. */
  readonly remoteAnswer?: InvokeOptions['remoteAnswer'] | undefined;
}

export type Enter = (
  principal: Principal,
  worker: WorkerRecord['service'],
  event: Uint8Array,
) => Promise<{ readonly key: JobKey; readonly location: string }>;

/** The caller and the service, known before the body is read. */
interface Caller {
  readonly principal: Principal;
  readonly record: ServiceRecord;
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | undefined;
  }
}

const tags = ['jobs'];
const Owner = Type.Object({
  owner: Type.Optional(Type.String({ description: 'for clients of other managers: names are unique in this cluster' })),
});
const DelegatedHeaders = Type.Object({
  'x-delegated-job-id': Type.Optional(
    Type.String({
      pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$',
      description:
        'for managers that delegate a job: its id, here as there; the same from the same caller again is the same job, ' +
        'anything else under it is 409',
    }),
  ),
  'x-delegated-from': Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.:-]{1,128}$',
      description:
        'the id of their cluster; if it is registered as `kind: upstream`, its manager is asked for the keys that the ' +
        'caller has at its object store, where the files of the job are',
    }),
  ),
});
/** Any bytes: an event of a store, JSON, or base64 of a file. It may be empty. */
const Event = {
  content: {
    'application/octet-stream': {
      schema: Type.Unsafe({ 'x-optional': true, examples: ['aGVsbG8K'] }),
    },
    'application/json': { schema: Type.Unsafe({ 'x-optional': true, examples: [{ text: 'hello' }] }) },
  },
};
const INVOKE_ERRORS = errors(403, 409, 410, 424);

const RUN_HEADERS = {
  'x-oscar-job-id': header('the id of the job'),
  'x-oscar-exit-code': header('the exit code of the script', 'integer'),
};

export function invokeRoutes(
  app: FastifyInstance,
  { authenticator, jobs, runTimeoutMs, executions, enter, origins, remoteAnswer }: InvokeDeps,
): void {
  app.decorateRequest('caller', undefined);
  const common = {
    ...NEVER_SHED,
    bodyLimit: jobs.maxEventBytes,
    // Before the body is read, so that unauthenticated clients cannot fill the memory.
    onRequest: async (request: FastifyRequest) => {
      const name = nameParam(request);
      const principal = await serviceBearer(request, authenticator, await jobs.services.get(name));
      const record = await findService(principal, 'invoke', name, jobs);
      const refused = federationGuard(record.service, 'invoke');
      if (refused && !(enter && isWorker(record) && mayEnter(request))) throw refused;
      request.caller = { principal, record };
    },
    onResponse: async (request: FastifyRequest, reply: FastifyReply) => {
      executions.add(toExecution(request, reply, toUserId(request), jobs.now()));
    },
    errorHandler: (error: FastifyError, request: FastifyRequest, reply: FastifyReply) =>
      answerError(isTooLarge(error) ? eventTooLarge(jobs.maxEventBytes) : error, request, reply),
  };

  const submit = async (request: FastifyRequest) => {
    const { principal, record } = toCaller(request);
    const delegated = delegatedIn(request);
    const key = delegated
      ? await submitDelegated(principal, record, toEvent(request), delegated, jobs, origins)
      : await submitJob(principal, record, toEvent(request), 'job', jobs);
    if (delegated) request.log.info({ ...key, from: delegated.from }, 'accepted a delegated job of another cluster');
    return { key, location: `/system/jobs/${key.service}/${key.id}` };
  };

  const submission = {
    operationId: 'submitJob',
    summary: 'Run a service with this event, some time soon',
    description:
      '`Location` and `X-Oscar-Job-Id` name the job. At the worker of a federation it is opened at the coordinator, where `Location` leads.',
    tags,
    params: Name,
    querystring: Owner,
    headers: DelegatedHeaders,
    body: Event,
    security: [{ bearer: [] }],
    response: {
      201: noBody('Accepted', {
        location: header('where the job is shown'),
        'x-oscar-job-id': header('the id of the job'),
      }),
      ...INVOKE_ERRORS,
    },
  };
  app.post('/job/:name', { ...common, schema: submission }, async (request, reply) => {
    const { principal, record } = toCaller(request);
    const { key, location } =
      enter && isWorker(record) ? await enter(principal, record.service, toEvent(request)) : await submit(request);
    return reply.code(201).header('location', location).header('x-oscar-job-id', key.id).send();
  });

  const run = {
    operationId: 'runService',
    summary: 'Run a service with this event and wait for its answer',
    description:
      'One output file as base64, several as base64 of a zip archive, none: what the script printed. If the script fails, ' +
      '500 with what it printed, and `X-Oscar-Exit-Code`. If the caller leaves, the script is ended.',
    tags,
    params: Name,
    querystring: Owner,
    body: Event,
    security: [{ bearer: [] }],
    response: {
      200: plainText('The answer of the script', RUN_HEADERS),
      500: plainText('The script failed: what it printed', RUN_HEADERS),
      ...INVOKE_ERRORS,
      ...errors(502, 504),
    },
  };
  app.post('/run/:name', { ...common, schema: run }, async (request, reply) => {
    const { principal, record } = toCaller(request);
    const options = {
      timeout: runTimeoutMs,
      left: abortOnDisconnect(reply),
      accepted: ({ id }: { id: string }) => void reply.header('x-oscar-job-id', id),
      ...(remoteAnswer && { remoteAnswer }),
    };
    const { succeeded, exitCode, answer } = await invokeService(principal, record, toEvent(request), options, jobs);
    if (exitCode !== undefined) reply.header('x-oscar-exit-code', String(exitCode));
    // Browsers must not interpret the output of a script as a web page of this manager.
    reply.header('x-content-type-options', 'nosniff');
    return reply
      .code(succeeded ? 200 : 500)
      .type(TEXT_TYPE)
      .send(answer);
  });
}

function toCaller({ caller }: FastifyRequest): Caller {
  if (!caller) throw new Error('the request was not authenticated');
  return caller;
}

const toEvent = ({ body }: FastifyRequest) => (body instanceof Uint8Array ? body : new Uint8Array());

function toUserId({ caller }: FastifyRequest): string {
  return caller?.principal.kind === 'user' ? caller.principal.uid : 'nil';
}

/**
 * A synchronous caller waits at the cluster that runs the job. A job that another manager has delegated is not forwarded to
 * the coordinator, which may have sent it: it stays here.
 */
const mayEnter = (request: FastifyRequest) => request.routeOptions.url === '/job/:name' && !delegatedIn(request);

function delegatedIn(request: FastifyRequest): Delegated | undefined {
  const id = headerText(request, 'x-delegated-job-id')?.trim();
  const from = headerText(request, 'x-delegated-from') ?? '';
  if (!id) return undefined;
  const credential = callerCredential(request);
  const bearer = credential?.kind === 'bearer' ? { bearer: credential.token } : {};
  // Other values must not get into records and logs.
  return { id, from: /^[\w.:-]{1,128}$/.test(from) ? from : '', ...bearer };
}

const isTooLarge = (error: Error) => 'code' in error && error.code === 'FST_ERR_CTP_BODY_TOO_LARGE';

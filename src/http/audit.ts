import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { networkOf } from '../identity/index.ts';
import { isObject } from '../lib/fields.ts';
import { FEDERATION_HEADER, MEMBER_HEADER } from '../peers/index.ts';
import type { AuditAction, AuditEvent, AuditLog } from '../ports/index.ts';
import { readJsonBody } from './body.ts';
import { readFlag } from './params.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller, as in an {@link AuditEvent}; empty before authentication. */
    actor: string;
    /** The code of the error with which the request was answered. */
    errorCode: string;
  }
}

interface AuditedRoute {
  readonly action: AuditAction | ((request: FastifyRequest) => AuditAction);
  /** The kind of object; its name is in the path, or in the body. */
  readonly object?: 'service' | 'bucket' | 'job';
  /** Only refused and failed requests are recorded, because the others are frequent and part of an audited act. */
  readonly quiet?: true;
}

const isSigned = ({ headers }: FastifyRequest) => headers[MEMBER_HEADER] !== undefined;
const isOrder = ({ headers }: FastifyRequest) => headers[FEDERATION_HEADER] !== undefined;

/** It changes nothing. Requests of coordinators are never dry runs. */
const isDryRun = (request: FastifyRequest) => readFlag(request, 'dry_run') && !isOrder(request);

function serviceUpdate(request: FastifyRequest): AuditAction {
  if (!isOrder(request)) return 'service.update';
  return request.headers['if-match']?.trim() === '*' ? 'worker.rekey' : 'worker.adopt';
}

/** All routes that change something. A test compares this table with the routes of a running manager. */
export const AUDITED_ROUTES: Readonly<Record<string, AuditedRoute>> = {
  'POST /system/services': {
    action: (request) => (isOrder(request) ? 'worker.create' : 'service.create'),
    object: 'service',
  },
  'PUT /system/services': { action: serviceUpdate, object: 'service' },
  'DELETE /system/services/:name': { action: 'service.delete', object: 'service' },
  'PUT /system/services/:name/federation': { action: 'worker.update', object: 'service' },
  'DELETE /system/services/:name/federation': { action: 'worker.release', object: 'service' },
  'POST /system/buckets': { action: 'bucket.create', object: 'bucket' },
  'PUT /system/buckets': { action: 'bucket.update', object: 'bucket' },
  'DELETE /system/buckets/:name': { action: 'bucket.delete', object: 'bucket' },
  'POST /system/buckets/:name/presign': { action: 'bucket.presign', object: 'bucket' },
  'PUT /system/config': { action: 'settings.update' },
  'POST /system/config/keys': { action: 'keys.rotate' },
  'POST /system/federation/:name': { action: 'federation.update', object: 'service' },
  'PUT /system/federation/:name': { action: 'federation.update', object: 'service' },
  'DELETE /system/federation/:name': { action: 'federation.update', object: 'service' },
  'POST /system/replicas/:name': { action: 'federation.update', object: 'service' },
  'PUT /system/replicas/:name': { action: 'federation.update', object: 'service' },
  'DELETE /system/replicas/:name': { action: 'federation.update', object: 'service' },
  'POST /system/federation/:name/changes': { action: 'federation.update', object: 'service' },
  'POST /system/federation/:name/departures': { action: 'member.leave', object: 'service' },
  'DELETE /system/federation/:name/token': { action: 'grant.revoke', object: 'service' },
  'POST /system/federation/:name/jobs': { action: 'job.open', object: 'service' },
  'POST /system/federation/:name/jobs/:id/attempts/:epoch': { action: 'job.report', object: 'job', quiet: true },
  'POST /job/:name': { action: (request) => (isSigned(request) ? 'job.offer' : 'service.invoke'), object: 'service' },
  'POST /run/:name': { action: 'service.invoke', object: 'service' },
  'DELETE /system/jobs/:name/:id': {
    action: (request) => (isSigned(request) ? 'job.stop' : 'job.cancel'),
    object: 'job',
  },
  'DELETE /system/logs/:name': { action: 'job.delete', object: 'service' },
  'DELETE /system/logs/:name/:id': { action: 'job.delete', object: 'job' },
  'POST /system/events/storage': { action: 'storage.event', quiet: true },
};

/** Statuses with which callers are rejected who are not known, or not known yet. */
const REJECTED_STRANGER = [401, 403, 409, 410, 429];

/** Records the acts of callers: every change, and every caller who could not be authenticated. */
export function auditRequests(app: FastifyInstance, audit: AuditLog): void {
  const strangers = new StrangerFailures(audit);
  app.decorateRequest('actor', '');
  app.decorateRequest('errorCode', '');
  app.addHook('onClose', async () => strangers.close());
  app.addHook('onResponse', async (request, reply) => {
    const status = reply.statusCode;
    if (request.actor === '') {
      if (REJECTED_STRANGER.includes(status)) strangers.record(request);
      return;
    }
    const route = AUDITED_ROUTES[`${request.method} ${request.routeOptions.url ?? ''}`];
    if (!route || (status < 400 && (route.quiet || isDryRun(request)))) return;
    audit.record(toEvent(request, reply, route));
  });
}

function toEvent(request: FastifyRequest, { statusCode }: FastifyReply, route: AuditedRoute): AuditEvent {
  const { action, object } = route;
  const named = object && nameObject(object, request);
  return {
    action: typeof action === 'string' ? action : action(request),
    actor: request.actor,
    ...(named && { object: named.object }),
    outcome: statusCode < 400 ? 'success' : statusCode < 500 ? 'refused' : 'failed',
    ...(request.errorCode !== '' && { reason: request.errorCode }),
    request: request.id,
    address: request.ip,
    ...(named?.details && { details: named.details }),
  };
}

interface NamedObject {
  readonly object: string;
  readonly details?: Record<string, string | number>;
}

function nameObject(kind: string, request: FastifyRequest): NamedObject | undefined {
  const { name, id } = (request.params ?? {}) as { name?: string; id?: string };
  if (name !== undefined) return { object: [kind, name, ...(id === undefined ? [] : [id])].join('/') };
  const body = readBody(request);
  const named = body['name'] ?? body['bucket_name'];
  if (typeof named !== 'string') return undefined;
  const { visibility, allowed_users: allowed } = body;
  return {
    object: `${kind}/${named.slice(0, LONGEST_NAME)}`,
    details: {
      ...(typeof visibility === 'string' && visibility !== '' && { visibility: visibility.slice(0, LONGEST_NAME) }),
      ...(Array.isArray(allowed) && { allowed_users: allowed.length }),
    },
  };
}

/** Longer than all valid names. */
const LONGEST_NAME = 256;

function readBody(request: FastifyRequest): Record<string, unknown> {
  try {
    const body = readJsonBody(request);
    return isObject(body) ? body : {};
  } catch {
    // The answer has already said that the body is not JSON.
    return {};
  }
}

/**
 * How long further failures of one address are only counted. Shorter: strangers fill the stream. Longer: the operator sees
 * later how many they were.
 */
const SUMMARY_MS = 60_000;

/** Addresses and reasons that are counted apart. The failures of all others are counted together. */
const MOST_STRANGERS = 1_000;

/** Records failures of callers who are not known. Each caller causes at most two events a minute, all of them a bounded number. */
class StrangerFailures {
  readonly #audit: AuditLog;
  readonly #counts = new Map<string, { readonly event: AuditEvent; more: number }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(audit: AuditLog) {
    this.#audit = audit;
  }

  record({ ip, errorCode, id }: FastifyRequest): void {
    const reason = errorCode || 'no-credentials';
    const address = networkOf(ip);
    const known = this.#counts.get(`${address} ${reason}`);
    const isNew = known === undefined && this.#counts.size < MOST_STRANGERS;
    const key = known || isNew ? `${address} ${reason}` : 'others';
    const event: AuditEvent = {
      action: 'sign-in',
      actor: 'anonymous',
      outcome: 'refused',
      ...(key !== 'others' && { reason, address }),
    };
    this.#timer ??= setTimeout(() => this.close(), SUMMARY_MS).unref();
    const count = this.#counts.get(key);
    if (count) count.more += 1;
    else {
      this.#counts.set(key, { event, more: 0 });
      this.#audit.record({ ...event, request: id });
    }
  }

  /** Records what was only counted so far. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const { event, more } of this.#counts.values()) if (more > 0) this.#audit.record({ ...event, count: more });
    this.#counts.clear();
  }
}

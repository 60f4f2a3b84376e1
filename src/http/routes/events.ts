import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { MemberEvent, MemberWatch } from '../../federation/index.ts';
import type { Admin, Authenticator, User } from '../../identity/index.ts';
import {
  currentCursor,
  followJobs,
  type Jobs,
  type MissedChanges,
  seesInvoker,
  summarizeJob,
  type VisibleChanges,
} from '../../jobs/index.ts';
import type { Cursor } from '../../lib/version.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { withMedia } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { goJson } from '../go-json.ts';
import { flushHeadersFirst, type OpenResponses } from '../open-answers.ts';
import { CursorParam } from '../params.ts';

export interface EventsDeps {
  readonly authenticator: Authenticator;
  readonly jobs: Jobs;
  readonly open: OpenResponses;
  /** Without it, no events of federations are sent. */
  readonly members?: MemberWatch;
  /** Interval of keep-alive comments on an idle connection. */
  readonly heartbeatMs?: number;
}

/** Longer: proxies close idle connections, many after a minute. Shorter: more traffic. */
const HEARTBEAT_MS = 15_000;

/**
 * How long one connection lasts. Clients reconnect by themselves and continue where they were, but must authenticate again.
 * Longer: a client with an expired token, or a user who was removed, can watch for longer. Shorter: more reconnections.
 */
const LONGEST_MS = 15 * 60_000;

export function eventsRoutes(app: FastifyInstance, deps: EventsDeps): void {
  const { authenticator, jobs, open, members, heartbeatMs = HEARTBEAT_MS } = deps;
  const schema = {
    operationId: 'watchEvents',
    summary: 'What happens to the jobs and members that the caller sees, as server-sent events',
    description:
      '`job`: a job has changed; `gone`: it was deleted; `resync`: changes were missed, list again. With `Last-Event-ID` ' +
      'the stream continues where another connection ended. `member`: the state of a member of a federation, first of all ' +
      'members, then of each member that changes.',
    tags: ['jobs'],
    headers: Type.Object({
      'last-event-id': CursorParam('the last `id` that was received'),
    }),
    response: {
      200: withMedia('A stream that stays open, for 15 minutes at most', {
        'text/event-stream': Type.String({
          examples: ['event: gone\ndata: {"service":"grayify","id":"…"}\nid: 42\n\n'],
        }),
      }),
    },
  };
  app.get('/system/events', { schema }, async (request, reply) => {
    const principal = await systemPrincipal(request, authenticator);
    const last = request.headers['last-event-id'];
    const since = typeof last === 'string' && last !== '' ? (last as Cursor) : await currentCursor(jobs);
    const over = new AbortController();
    const signal = AbortSignal.any([open.until(reply, LONGEST_MS), over.signal]);
    const options = { since, idle: heartbeatMs, signal };
    const ofJobs = eventText(followJobs(principal, options, jobs), principal, heartbeatMs);
    const text = members ? merged([ofJobs, memberText(members.follow(principal, signal))], over) : ofJobs;
    return (
      reply
        .type('text/event-stream; charset=utf-8')
        .header('cache-control', 'no-store')
        // Some proxies buffer small chunks.
        .header('x-accel-buffering', 'no')
        // While the manager stops, the connection would be kept alive for another request.
        .header('connection', 'close')
        .send(Readable.from(flushHeadersFirst(reply, text), { objectMode: false }))
    );
  });
}

/** The changes as server-sent events, with keep-alive comments while there are none. */
async function* eventText(
  changes: AsyncIterable<VisibleChanges | MissedChanges>,
  principal: Admin | User,
  heartbeatMs: number,
): AsyncGenerator<string, undefined> {
  let said = Number.NEGATIVE_INFINITY;
  for await (const seen of changes) {
    const events = readEvents(seen, principal);
    if (events.length === 0 && performance.now() - said < heartbeatMs) continue;
    said = performance.now();
    // The cursor is valid after all changes that were read together, so it is sent with the last of them. Without changes it
    // is sent alone, which is not an event, so that a client continues from there after a reconnect.
    yield `${events.length > 0 ? events.join('\n') : ':\n'}id: ${seen.cursor}\n\n`;
  }
}

/** Member events have no cursor: after a reconnect, the states of all members are sent again. */
async function* memberText(events: AsyncIterable<MemberEvent[]>): AsyncGenerator<string, undefined> {
  for await (const each of events) yield each.map((event) => `event: member\ndata: ${goJson(event)}\n\n`).join('');
}

/** Merges two streams until one of them ends. */
async function* merged<T>(
  sources: readonly AsyncGenerator<T, undefined>[],
  over: AbortController,
): AsyncGenerator<T, undefined> {
  const next = async (source: AsyncGenerator<T, undefined>) => ({ source, result: await source.next() });
  const waiting = new Map(sources.map((source) => [source, next(source)]));
  try {
    for (;;) {
      const { source, result } = await Promise.race(waiting.values());
      if (result.done) return;
      waiting.set(source, next(source));
      yield result.value;
    }
  } finally {
    over.abort();
    await Promise.allSettled([...waiting.values(), ...sources.map((source) => source.return(undefined))]);
  }
}

/** Watchers share records, so a record has at most two texts: one that names its invoker, and one that does not. */
const jobEvents = new WeakMap<JobRecord, Map<boolean, string>>();

function jobEvent(record: JobRecord, principal: Admin | User): string {
  const known = jobEvents.get(record) ?? new Map<boolean, string>();
  jobEvents.set(record, known);
  const isSeen = seesInvoker(record, principal);
  const text = known.get(isSeen) ?? `event: job\ndata: ${goJson(summarizeJob(record, principal))}\n`;
  known.set(isSeen, text);
  return text;
}

/** Each event without its final empty line, so that the id can be added to the last one. */
function readEvents(seen: VisibleChanges | MissedChanges, principal: Admin | User): string[] {
  if ('missed' in seen) return ['event: resync\ndata: {}\n'];
  return [
    ...seen.jobs.map((record) => jobEvent(record, principal)),
    ...seen.gone.map(({ service, id }) => `event: gone\ndata: ${goJson({ service, id })}\n`),
  ];
}

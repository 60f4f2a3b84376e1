import assert from 'node:assert/strict';
import {
  type Clusters,
  type ClustersOptions,
  create,
  type FederationBody,
  federated,
  type MemberBody,
  member,
  startClusters,
  type TestCluster,
} from './federation.ts';
import { ALICE } from './issuer-users.ts';
import { eventually, type SeenJob } from './jobs.ts';
import type { Seen } from './wire.ts';

export interface DelegationOptions extends Pick<ClustersOptions, 'settings' | 'own'> {
  /** Ids of clusters that cannot run jobs of the origin. */
  readonly unable?: readonly string[];
}

/** Four managers that accept jobs of each other, each with two cores unless its settings differ. */
export async function startDelegation({ settings, own, unable = [] }: DelegationOptions = {}): Promise<Clusters> {
  const them = await startClusters({
    registered: true,
    settings: { OSCAR_PEER_NETWORKS: '127.0.0.0/8', OIDC_CLIENT_ID: 'oscar', OSCAR_LOCAL_CPU: '2', ...settings },
    ...(own && { own }),
  });
  try {
    await warmUp(
      them,
      [them.a, them.b, them.c].filter(({ id }) => !unable.includes(id)),
    );
    return them;
  } catch (error) {
    await them[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Runs one job per cluster. The first job of a manager loads code and starts processes that later jobs reuse. On a busy
 * machine it may exceed the deadline of the offer, so that the job runs at another member: correct, but tests expect a
 * certain member. A job that enters at a worker of a star has no such deadline.
 */
async function warmUp(them: Clusters, clusters: readonly TestCluster[]): Promise<void> {
  const { origin, people } = them;
  const members = clusters.map((each) => member(each, 'warm'));
  await delegating(them, 'warm', members, { script: 'true', input: [], output: [] });
  await Promise.all(
    clusters.map(async ({ outside }) => {
      const id = await eventually(() => outside.submit(people.alice, 'warm', ''), WARM_UP_PATIENCE);
      await eventually(() => endedWell(origin, people.alice, 'warm', id), WARM_UP_PATIENCE);
    }),
  );
}

const WARM_UP_PATIENCE = 120_000;

/** A script that copies its input to a result of the same name, with an optional suffix. */
export const copying = (after = '') => `cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/$(basename "$INPUT_FILE_PATH")${after}"`;

/** Creates a federation of Alice that delegates all jobs while a member is available. Resolves to its new refresh token. */
export async function delegating(
  { origin, people }: Pick<Clusters, 'origin' | 'people'>,
  name: string,
  members: readonly AnyMember[],
  given: Delegating,
): Promise<string> {
  const { refreshToken } = await people.issuer.tokensFor(ALICE);
  await create(origin, people.alice, delegatingBody(name, members, refreshToken, given));
  return refreshToken;
}

/** The body that creates such a federation. */
export function delegatingBody(
  name: string,
  members: readonly AnyMember[],
  refreshToken: string,
  { script, federation, environment, ...more }: Delegating,
): FederationBody {
  const always = { topology: 'star', delegate_when: 'always', self: { priority: 100 }, members, ...federation };
  return federated(
    name,
    [],
    {},
    {
      ...more,
      script: `#!/bin/sh\n${script}\n`,
      federation: always,
      environment: { ...environment, secrets: { ...environment?.secrets, refresh_token: refreshToken } },
    },
  );
}

type AnyMember = MemberBody | { readonly type: 'endpoint'; readonly url: string; readonly headers?: object };

interface Delegating extends Record<string, unknown> {
  readonly script: string;
  readonly federation?: Record<string, unknown>;
  readonly environment?: { readonly variables?: object; readonly secrets?: object };
}

/** All jobs of a service, newest first, once there are that many and all have ended. */
export function allEnded(
  at: TestCluster,
  as: string,
  name: string,
  count: number,
  patience?: number,
): Promise<SeenJob[]> {
  return eventually(async () => {
    const jobs = await at.outside.jobs(as, name);
    const ended = jobs.filter(({ phase }) => phase === 'Succeeded' || phase === 'Failed');
    assert.equal(ended.length, count, jobs.map(storyOf).join('\n'));
    return jobs;
  }, patience);
}

/** The only job of a service, once it has succeeded. */
export async function onlySucceeded(at: TestCluster, as: string, name: string): Promise<SeenJob> {
  const [job] = await allEnded(at, as, name, 1);
  return succeeded(job);
}

/** The job with this id, once it has succeeded. */
export async function endedWell(at: TestCluster, as: string, name: string, id: string): Promise<SeenJob> {
  return succeeded(await at.outside.ended(name, id, as));
}

function succeeded(job: SeenJob | undefined): SeenJob {
  assert.equal(job?.state, 'succeeded', job && storyOf(job));
  return job;
}

/** The job with this id, once it is in this state. */
export function inState(at: TestCluster, as: string, name: string, id: string, state: string): Promise<SeenJob> {
  return eventually(async () => {
    const job = await at.outside.job(as, name, id);
    assert.equal(job.state, state, storyOf(job));
    return job;
  });
}

/** The cluster of the last attempt. */
export const placeOf = ({ attempts }: SeenJob) => attempts.at(-1)?.place;

/** The states of its timeline, each with its reason. */
export const statesOf = ({ timeline }: SeenJob) => timeline.map(({ state, reason }) => `${state} ${reason}`);

/** The timeline as text, for messages of failing tests. */
export const storyOf = (job: SeenJob) =>
  `${job.id}: ${job.state}, ${job.message}; ${job.timeline.map(({ state, reason, message, place }) => `${state} (${reason} at ${place}: ${message})`).join(', ')}`;

/** Checks that its results were committed once. */
export function expectOneCommit(job: SeenJob): void {
  const ends = job.timeline
    .map(({ state }) => state)
    .filter((state) => state === 'committing' || state === 'succeeded');
  assert.deepEqual(ends, ['committing', 'succeeded'], storyOf(job));
}

/** The offers of jobs of this service that a cluster received. */
export const offersTo = ({ wire }: Pick<TestCluster, 'wire'>, worker: string): readonly Seen[] =>
  wire.seen.filter(
    ({ method, path, headers }) => method === 'POST' && path === `/job/${worker}` && headers['x-oscar-member'],
  );

/** Checks that the staging area has no objects of any attempt. */
export function expectStagingEmpty({ outside, admin }: TestCluster, name: string): Promise<void> {
  return eventually(async () => {
    const keys = await outside.keys(admin, 'oscar-staging');
    assert.deepEqual(
      keys.filter((key) => key.startsWith(`${name}/`)),
      [],
    );
  });
}

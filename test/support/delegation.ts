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

/** Four managers that take jobs of each other, each with two cores unless its settings say otherwise. */
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
 * The first job of a manager loads and starts much that later ones find there. On a busy machine an offer may take longer
 * for that than it is waited for, and the job goes elsewhere: rightly, but a test wants to know where. What enters at a
 * worker of a star waits for it as long as it takes.
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

/** A script that copies its input to a result of the same name, or with this after it. */
export const copying = (after = '') => `cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/$(basename "$INPUT_FILE_PATH")${after}"`;

/** A federation of Alice whose jobs all go to members as long as one is there. Resolves to its refresh token, a new one. */
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

/** What makes such a federation. */
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

/** That job, once it has succeeded. */
export async function endedWell(at: TestCluster, as: string, name: string, id: string): Promise<SeenJob> {
  return succeeded(await at.outside.ended(name, id, as));
}

function succeeded(job: SeenJob | undefined): SeenJob {
  assert.equal(job?.state, 'succeeded', job && storyOf(job));
  return job;
}

/** That job, once it is in that state. */
export function inState(at: TestCluster, as: string, name: string, id: string, state: string): Promise<SeenJob> {
  return eventually(async () => {
    const job = await at.outside.job(as, name, id);
    assert.equal(job.state, state, storyOf(job));
    return job;
  });
}

/** Where its last attempt ran. */
export const placeOf = ({ attempts }: SeenJob) => attempts.at(-1)?.place;

/** The states it went through, each with its reason. */
export const statesOf = ({ timeline }: SeenJob) => timeline.map(({ state, reason }) => `${state} ${reason}`);

/** For a test that fails. */
export const storyOf = (job: SeenJob) =>
  `${job.id}: ${job.state}, ${job.message}; ${job.timeline.map(({ state, reason, message, place }) => `${state} (${reason} at ${place}: ${message})`).join(', ')}`;

/** Its results were taken once. */
export function expectOneCommit(job: SeenJob): void {
  const ends = job.timeline
    .map(({ state }) => state)
    .filter((state) => state === 'committing' || state === 'succeeded');
  assert.deepEqual(ends, ['committing', 'succeeded'], storyOf(job));
}

/** What was offered to a cluster over its wire, of jobs of this service. */
export const offersTo = ({ wire }: Pick<TestCluster, 'wire'>, worker: string): readonly Seen[] =>
  wire.seen.filter(
    ({ method, path, headers }) => method === 'POST' && path === `/job/${worker}` && headers['x-oscar-member'],
  );

/** Nothing is left of any attempt in the staging area. */
export function expectStagingEmpty({ outside, admin }: TestCluster, name: string): Promise<void> {
  return eventually(async () => {
    const keys = await outside.keys(admin, 'oscar-staging');
    assert.deepEqual(
      keys.filter((key) => key.startsWith(`${name}/`)),
      [],
    );
  });
}

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { ADMIN, call } from '../support/manager.ts';
import { PodManagers, type Replica } from './pod-managers.ts';
import { SERVICES_NAMESPACE } from './testbed.ts';

/** Pods are slow on a busy machine. */
const PATIENCE = 120_000;

/** Jobs change at most a few times per second. */
const EVERY_MS = 50;

/** Each of three rounds takes half a minute on an idle machine. */
const ROUNDS = { timeout: 600_000 };

/** A short lease, because six leaders are killed. */
const LEADER = { OSCAR_LEADER_SECONDS: '6' };

describe('replicas with pods', { timeout: 900_000 }, () => {
  let our: PodManagers;
  let one: Replica;
  let two: Replica;
  const tokens = new Map<string, string>();

  before(async () => {
    our = await PodManagers.start();
    [one, two] = await Promise.all([our.replica(LEADER), our.replica(LEADER)]);
  });
  after(() => our?.stop());

  async function create(name: string, script: string): Promise<void> {
    const body = { name, image: BUSYBOX, cpu: '0.05', memory: '16Mi', script: `#!/bin/sh\n${script}\n` };
    // An overloaded manager rejects the request without having done anything; retry.
    await eventually(
      async () => {
        const { status, text } = await call(one.url, 'POST', '/system/services', { as: ADMIN, body });
        assert.equal(status, 201, text);
      },
      PATIENCE,
      1_000,
    );
    const { json } = await call(one.url, 'GET', `/system/services/${name}`, { as: ADMIN });
    tokens.set(name, `Bearer ${(json() as { token: string }).token}`);
  }

  const as = (service: string) => tokens.get(service) ?? '';

  async function submit(at: Replica, service: string): Promise<string> {
    const { status, headers, text } = await call(at.url, 'POST', `/job/${service}`, { as: as(service), body: '{}' });
    assert.equal(status, 201, text);
    return headers.get('x-oscar-job-id') ?? '';
  }

  interface Pod {
    readonly metadata: { readonly name: string };
    readonly status: { readonly phase: string };
  }

  interface Told {
    readonly state: string;
    readonly message: string;
    readonly attempts: readonly unknown[];
  }

  async function look(at: Replica, service: string, id: string): Promise<Told> {
    const { json, text, status } = await call(at.url, 'GET', `/system/jobs/${service}/${id}`, { as: ADMIN });
    assert.equal(status, 200, text);
    return json() as Told;
  }

  const until = (at: Replica, service: string, id: string, state: string) =>
    eventually(
      async () => {
        const job = await look(at, service, id);
        assert.equal(job.state, state, JSON.stringify(job));
        return job;
      },
      PATIENCE,
      EVERY_MS,
    );

  /** Pods of the job with a container that runs or may still start. */
  async function alive(id: string): Promise<string[]> {
    const path = `/api/v1/namespaces/${SERVICES_NAMESPACE}/pods?labelSelector=job-name%3D${id}`;
    const { items } = (await our.cluster.admin.do('GET', path)) as unknown as { items: Pod[] };
    return items
      .filter(({ status }) => !/^(Succeeded|Failed)$/.test(status.phase))
      .map(({ metadata }) => metadata.name);
  }

  async function ranks(): Promise<{ leader: Replica; other: Replica }> {
    const leader = await our.leader([one, two]);
    return { leader, other: leader === one ? two : one };
  }

  describe('with one leader', { concurrency: 3 }, () => {
    test('a job that either manager accepts runs, and both report it', async () => {
      await create('hello', `${our.reportRun}\necho hello from $JOB_UUID`);
      const { leader, other } = await ranks();
      const ids = [await submit(leader, 'hello'), await submit(other, 'hello')];
      for (const id of ids) {
        for (const at of [leader, other]) await until(at, 'hello', id, 'succeeded');
        const { text } = await call(other.url, 'GET', `/system/logs/hello/${id}`, { as: ADMIN });
        assert.match(text, new RegExp(`hello from ${id}`));
        assert.equal(our.countRuns(id), 1);
      }
    });

    test('a call to the follower is answered', async () => {
      await create('echo', 'echo the answer');
      const { other } = await ranks();
      const { status, text } = await call(other.url, 'POST', '/run/echo', { as: as('echo'), body: 'hello' });
      assert.equal(status, 200, text);
      assert.equal(text, 'the answer\n');
    });

    test('a job is cancelled at the follower, and its pod ends', async () => {
      await create('long', `${our.reportRun}\nsleep 600`);
      const { other } = await ranks();
      const id = await submit(other, 'long');
      await eventually(() => assert.equal(our.countRuns(id), 1), PATIENCE);
      assert.equal((await alive(id)).length, 1);
      const { status, text } = await call(other.url, 'DELETE', `/system/jobs/long/${id}`, { as: ADMIN });
      assert.equal(status, 202, text);
      await until(other, 'long', id, 'cancelled');
      await eventually(async () => assert.deepEqual(await alive(id), []), PATIENCE, EVERY_MS);
    });
  });

  test('running and queued jobs continue once under the next leader', ROUNDS, async () => {
    await create('steady', `${our.reportRun}\nsleep 3`);
    for (const wait of [0, 1_500, 4_000]) {
      const { leader, other } = await ranks();
      const ids: string[] = [];
      for (let i = 0; i < 4; i++) ids.push(await submit(i % 2 === 0 ? leader : other, 'steady'));
      // Not to wait for something, but to kill at another moment in each round.
      await new Promise((resolve) => setTimeout(resolve, wait));
      leader.child.kill('SIGKILL');
      ids.push(await submit(other, 'steady'));
      if (leader === one) one = await our.replica(LEADER);
      else two = await our.replica(LEADER);
      await settled(other, 'steady', ids);
    }
  });

  test('a paused leader continues, and nothing runs twice', ROUNDS, async () => {
    await create('paused', `${our.reportRun}\nsleep 2`);
    for (const wait of [0, 1_000, 3_000]) {
      const { leader, other } = await ranks();
      const ids: string[] = [];
      for (let i = 0; i < 4; i++) ids.push(await submit(i % 2 === 0 ? leader : other, 'paused'));
      await new Promise((resolve) => setTimeout(resolve, wait));
      leader.child.kill('SIGSTOP');
      ids.push(await submit(other, 'paused'));
      await our.leader([other]);
      await settled(other, 'paused', ids);
      leader.child.kill('SIGCONT');
      const late = await submit(other, 'paused');
      await settled(other, 'paused', [...ids, late]);
      await eventually(() => assert.ok(!our.isLeader(leader)), PATIENCE, EVERY_MS);
    }
  });

  async function settled(at: Replica, service: string, ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      const job = await until(at, service, id, 'succeeded');
      assert.equal(job.attempts.length, 1, JSON.stringify(job));
      assert.equal(our.countRuns(id), 1, `${id} ran ${our.countRuns(id)} times: ${JSON.stringify(job)}`);
    }
  }
});

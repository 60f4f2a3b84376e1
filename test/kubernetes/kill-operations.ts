import assert from 'node:assert/strict';
import { Slots } from '../../src/lib/concurrency.ts';
import { eventually, service } from '../support/jobs.ts';
import { ADMIN, type Answer } from '../support/manager.ts';
import { callWhileBusy } from './kill-calls.ts';
import { type KillClusters, MEMBERS } from './kill-clusters.ts';
import type { Side, StopPoint } from './kill-gate.ts';

/** How many services are stopped at the same time in one manager. Each occupies one of its connections. */
const STOPPED_PER_MANAGER = 12;

/** How many managers run, and are killed, at the same time. */
const CONCURRENT_VICTIMS = 3;

/** An operation on a service that takes the manager several writes. */
export interface Operation {
  readonly what: string;
  /** The owner of the service. */
  readonly owner: string;
  /** Creates what the operation requires. */
  readonly prepare?: (url: string, name: string) => Promise<void>;
  readonly act: (url: string, name: string) => Promise<Answer>;
  /** The status of the answer when the operation is still to be done, and when it was already done. */
  readonly answers: readonly [first: number, again: number];
  /** Whether the service exists afterwards. */
  readonly leaves: 'service' | 'nothing';
  readonly federated: boolean;
}

/** The name of a member's service on its cluster. */
export const workerName = (name: string) => `${name}-worker`;

export function serviceOperations(alice: string): readonly Operation[] {
  const federation = (name: string, script: string) => ({
    ...service(name, script, { input: [], output: [] }),
    environment: { secrets: { refresh_token: `token of ${name}`, PASSWORD: 'hush' } },
    federation: {
      topology: 'mesh',
      members: MEMBERS.map((id) => ({ cluster_id: id, service_name: workerName(name) })),
    },
  });
  const make = (url: string, name: string) =>
    callWhileBusy(url, 'POST', '/system/services', { as: ADMIN, body: service(name, 'true') });
  const join = (url: string, name: string) =>
    callWhileBusy(url, 'POST', '/system/services', { as: alice, body: federation(name, 'echo first') });
  const joined = (url: string, name: string) => retryWhileBusy(() => join(url, name), 201, name);
  const made = async (url: string, name: string) => {
    expect(await make(url, name), 201);
    const { token } = expect(await read(url, name), 200).json() as { token: string };
    // The job stays queued: there is no node.
    expect(await callWhileBusy(url, 'POST', `/job/${name}`, { as: `Bearer ${token}`, body: 'x' }), 201);
  };
  const remove = (as: string) => (url: string, name: string) =>
    callWhileBusy(url, 'DELETE', `/system/services/${name}`, { as });
  const change = (url: string, name: string) =>
    callWhileBusy(url, 'PUT', '/system/services', { as: alice, body: federation(name, 'echo second') });
  const [own, shared] = [
    { owner: ADMIN, federated: false },
    { owner: alice, federated: true },
  ];
  return [
    { ...own, what: 'make', act: make, answers: [201, 409], leaves: 'service' },
    { ...own, what: 'drop', prepare: made, act: remove(ADMIN), answers: [204, 404], leaves: 'nothing' },
    { ...shared, what: 'join', act: join, answers: [201, 409], leaves: 'service' },
    { ...shared, what: 'turn', prepare: joined, act: change, answers: [204, 204], leaves: 'service' },
    { ...shared, what: 'part', prepare: joined, act: remove(alice), answers: [204, 404], leaves: 'nothing' },
  ];
}

export const read = (url: string, name: string) => callWhileBusy(url, 'GET', `/system/services/${name}`, { as: ADMIN });

export function expect(answer: Answer, status: number, about = ''): Answer {
  assert.equal(answer.status, status, `${about} ${answer.text}`);
  return answer;
}

/**
 * Retries while a cluster is too busy. A cluster that does not answer in time counts as unreachable: then nothing was
 * created, or a member is updated later. A retry may also meet a rollback that is still running.
 */
export async function retryWhileBusy(act: () => Promise<Answer>, status: number, about: string): Promise<void> {
  let wasBusy = false;
  await eventually(async () => {
    const answer = await act();
    const isLate = answer.status === 504 || (answer.status === 200 && status === 204);
    const again = isLate || (wasBusy && answer.status !== status);
    wasBusy ||= isLate;
    assert.ok(!again, `${about} ${answer.text}`);
    return answer;
  }).then((answer) => expect(answer, status, about));
}

const serviceName = ({ what }: Operation, step: number, side: Side | 'clean') =>
  `${what}-${String(step).padStart(2, '0')}-${side}`;

/** What was measured on an operation without a kill. */
export interface CleanOperation {
  readonly operation: Operation;
  readonly name: string;
  /** The number of writes. */
  readonly steps: number;
  /** The objects of a service that exists. */
  readonly complete: readonly string[];
}

export async function runClean(
  operation: Operation,
  url: string,
  { gate, inventory: traces }: KillClusters,
): Promise<CleanOperation> {
  const name = serviceName(operation, 0, 'clean');
  const sequence = gate.track(name);
  const whole = async () => (await traces.forNames([name]))[name] ?? [];
  await operation.prepare?.(url, name);
  const before = await whole();
  const act = () => {
    sequence.begin();
    return operation.act(url, name);
  };
  await retryWhileBusy(act, operation.answers[0], name);
  const steps = sequence.writes.length;
  return { operation, name, steps, complete: operation.leaves === 'service' ? await whole() : before };
}

export interface Step {
  readonly operation: Operation;
  readonly stopPoint: StopPoint;
}

/** An operation during which a manager was killed. */
export interface KilledOperation extends Step {
  readonly name: string;
  /** Where it was killed, for messages of failures. */
  readonly at: string;
  /** Whether the operation reached its stop point. */
  readonly wasStopped: boolean;
}

/** Kills managers at all these steps, several at a time. */
export async function killAt(steps: readonly Step[], scene: KillClusters): Promise<KilledOperation[]> {
  const batches: (readonly Step[])[] = [];
  for (let from = 0; from < steps.length; from += STOPPED_PER_MANAGER)
    batches.push(steps.slice(from, from + STOPPED_PER_MANAGER));
  const slots = new Slots(CONCURRENT_VICTIMS);
  return (await Promise.all(batches.map((batch) => slots.use(() => killOne(batch, scene))))).flat();
}

/** Waits until every operation has reached its stop point, then kills the manager. */
async function killOne(steps: readonly Step[], scene: KillClusters): Promise<KilledOperation[]> {
  const victim = await scene.victim();
  const standing = await Promise.all(
    steps.map(async ({ operation, stopPoint }) => {
      const name = serviceName(operation, stopPoint.at, stopPoint.side);
      const sequence = scene.gate.track(name);
      await operation.prepare?.(victim.url, name);
      sequence.begin(stopPoint);
      let over = false;
      const answer = operation
        .act(victim.url, name)
        .catch(() => undefined)
        .finally(() => (over = true));
      await eventually(() =>
        assert.ok(sequence.isStopped || over, `${name} reaches neither its stop point nor its end`),
      );
      return { operation, stopPoint, name, sequence, answer };
    }),
  );
  victim.child.kill('SIGKILL');
  await victim.ended;
  await Promise.all(standing.map(({ answer }) => answer));
  return standing.map(({ operation, stopPoint, name, sequence }) => {
    const at = `${name}: killed ${stopPoint.side} ${sequence.writes.at(-1)}`;
    return { operation, stopPoint, name, at, wasStopped: sequence.isStopped };
  });
}

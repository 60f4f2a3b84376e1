import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { all, type Element, type Elements } from '../../objectstore/index.ts';
import type { Subscription } from '../object-store.ts';
import type { Claims } from './claims.ts';
import { Refusal } from './wire/refusal.ts';
import type { S3 } from './wire/s3.ts';

/** Where events are sent to: what the store calls these places, by our names for them. Without any there are no rules. */
export type Targets = () => Promise<ReadonlyMap<string, string>>;

/**
 * Which prefixes of a bucket are reported, as plain S3 has it: rules take effect at once, and MinIO is never started anew
 * (R1). Rules of others stay as they are. Those that a Go manager made for a service go with ours (contract §4.3).
 */
export class Rules {
  readonly #s3: S3;
  readonly #targets: Targets;
  readonly #claims: Claims;

  constructor(s3: S3, targets: Targets, claims: Claims) {
    this.#s3 = s3;
    this.#targets = targets;
    this.#claims = claims;
  }

  async add(subscription: Subscription): Promise<void> {
    const targets = await this.#targets();
    await this.#change(subscription.bucket, (rules) => [
      ...rules.filter((rule) => !isOf(subscription, rule)),
      ...[...targets].map(([target, arn]) => ruleOf(subscription, target, arn)),
    ]);
  }

  async remove(subscription: Subscription): Promise<void> {
    await this.#change(subscription.bucket, (rules) =>
      rules.filter((rule) => !isOf(subscription, rule) && !isOfGo(subscription, rule)),
    );
  }

  /** Would the store send there? It says so only about a rule. */
  async takes(arn: string, probe: Subscription): Promise<boolean> {
    try {
      await this.#change(probe.bucket, (rules) => [...rules, ruleOf(probe, 'probe', arn)]);
    } catch (error) {
      if (error instanceof Refusal) return false;
      throw error;
    }
    await this.remove(probe);
    return true;
  }

  async #change(bucket: string, change: (rules: readonly Elements[]) => readonly Elements[]): Promise<void> {
    // Most often there is nothing to do, and then nobody need wait.
    const look = async () => {
      const found = await this.#s3.notification(bucket);
      const rules = found && rulesIn(found);
      const next = rules && change(rules.ours);
      return next && !isDeepStrictEqual(next, rules.ours) ? { ...rules.others, QueueConfiguration: next } : undefined;
    };
    if (!(await look())) return;
    await this.#claims.hold(`rules/${bucket}`, async () => {
      const next = await look();
      if (next) await this.#s3.setNotification(bucket, next);
    });
  }
}

/** All rules that send to a queue, whoever made them, and whatever else there is. */
function rulesIn(configuration: Element): { ours: readonly Elements[]; others: Elements } {
  const names = new Set(configuration.children.map(({ name }) => name));
  names.delete('QueueConfiguration');
  const others = [...names].map((name) => [name, all(configuration, name).map(contentOf)] as const);
  return { ours: all(configuration, 'QueueConfiguration').map(elementsOf), others: Object.fromEntries(others) };
}

function ruleOf(subscription: Subscription, target: string, arn: string): Elements {
  const rule = { Event: ['s3:ObjectCreated:*'], Filter: filterOf(subscription.prefix) };
  return normal({ Id: `${idOf(subscription)}${target}`, ...rule, Queue: arn });
}

function isOf(subscription: Subscription, { Id }: Elements): boolean {
  const [id] = Array.isArray(Id) ? (Id as readonly unknown[]) : [Id];
  return typeof id === 'string' && id.startsWith(idOf(subscription));
}

/** A Go manager has a target for each service, named like it. */
function isOfGo({ service, prefix }: Subscription, { Queue, Filter }: Elements): boolean {
  if (service === undefined) return false;
  const [arn] = Array.isArray(Queue) ? (Queue as readonly unknown[]) : [Queue];
  const sent = typeof arn === 'string' && arn.startsWith('arn:minio:sqs:') && arn.endsWith(`:${service}:webhook`);
  return sent && isDeepStrictEqual(Filter, normal({ Filter: filterOf(prefix) })['Filter']);
}

const filterOf = (prefix: string) => ({ S3Key: { FilterRule: [{ Name: 'prefix', Value: prefix }] } });

/** An id has at most 255 characters, and a prefix may have more. */
const idOf = ({ prefix, subscriber }: Subscription) => `oscar/${subscriber}/${hash('sha256', prefix).slice(0, 16)}/`;

/** An element as it is written, all of its elements as lists, so that two can be compared. */
function elementsOf(element: Element): Elements {
  const names = [...new Set(element.children.map(({ name }) => name))].toSorted();
  return Object.fromEntries(names.map((name) => [name, all(element, name).map(contentOf)]));
}

const contentOf = (element: Element) => (element.children.length > 0 ? elementsOf(element) : element.text);

/** The same for one that was not read. */
function normal(elements: Elements): Elements {
  const entries = Object.entries(elements).map(([name, value]) => {
    const list = Array.isArray(value) ? (value as readonly (string | Elements)[]) : [value as string | Elements];
    return [name, list.map((each) => (typeof each === 'object' ? normal(each) : each))] as const;
  });
  return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

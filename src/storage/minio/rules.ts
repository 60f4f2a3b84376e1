import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { all, type Element, type Elements } from '../../objectstore/index.ts';
import type { Subscription } from '../object-store.ts';
import type { Claims } from './claims.ts';
import type { Admin } from './wire/admin.ts';
import type { S3 } from './wire/s3.ts';

/**
 * The two places that events are sent to, as the operator names them in the environment of MinIO: one is quick and
 * forgets what it cannot deliver, the other keeps it on disk and is some seconds late. An event that comes twice is one
 * job.
 */
export const TARGETS = ['OSCAR_FAST', 'OSCAR_DURABLE'] as const;
export type Target = (typeof TARGETS)[number];

/** How long it is believed that the store has fewer than all: its operator may have started it anew. */
const BELIEVED_MS = 60_000;

/**
 * Which prefixes of a bucket are reported, as plain S3 has it: rules take effect at once, and MinIO is never started anew
 * (R1). Rules of others, those of a Go manager too, stay as they are.
 */
export class Rules {
  readonly #s3: S3;
  readonly #admin: Admin;
  readonly #claims: Claims;
  #known: { readonly arns: ReadonlyMap<Target, string>; readonly at: number } | undefined;

  constructor(s3: S3, admin: Admin, claims: Claims) {
    this.#s3 = s3;
    this.#admin = admin;
    this.#claims = claims;
  }

  /** The targets that the store has. Without any there are no rules, and objects are found by the sweep. */
  async targets(): Promise<ReadonlyMap<Target, string>> {
    const known = this.#known;
    if (known && (known.arns.size === TARGETS.length || performance.now() - known.at < BELIEVED_MS)) return known.arns;
    const arns = await this.#admin.targets();
    const found = TARGETS.flatMap((target) => {
      // Between the last colon but two and this one is the region, if the store has one.
      const arn = arns.find((each) => each.startsWith('arn:minio:sqs:') && each.endsWith(`:${target}:webhook`));
      return arn === undefined ? [] : [[target, arn] as const];
    });
    this.#known = { arns: new Map(found), at: performance.now() };
    return this.#known.arns;
  }

  async add(subscription: Subscription): Promise<void> {
    const targets = await this.targets();
    await this.#change(subscription.bucket, (rules) => [
      ...rules.filter((rule) => !isOf(subscription, rule)),
      ...[...targets].map(([target, arn]) => ruleOf(subscription, target, arn)),
    ]);
  }

  async remove(subscription: Subscription): Promise<void> {
    await this.#change(subscription.bucket, (rules) => rules.filter((rule) => !isOf(subscription, rule)));
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

function ruleOf(subscription: Subscription, target: Target, arn: string): Elements {
  const FilterRule = { Name: 'prefix', Value: subscription.prefix };
  const rule = { Event: ['s3:ObjectCreated:*'], Filter: { S3Key: { FilterRule: [FilterRule] } } };
  return normal({ Id: `${idOf(subscription)}${target}`, ...rule, Queue: arn });
}

function isOf(subscription: Subscription, { Id }: Elements): boolean {
  const [id] = Array.isArray(Id) ? (Id as readonly unknown[]) : [Id];
  return typeof id === 'string' && id.startsWith(idOf(subscription));
}

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

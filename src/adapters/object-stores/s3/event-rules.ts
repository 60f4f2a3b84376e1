import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Subscription } from '../../../ports/index.ts';
import { childElements, type Element, type Elements } from '../../../s3-server/index.ts';
import type { S3Api } from './s3-api.ts';
import { describePermanentFailure, hasErrorCode } from './signed-http-client.ts';
import type { StoreLocks } from './store-locks.ts';

type Change = (rules: readonly Elements[], targets: EventTargets) => readonly Elements[];

interface EventRulesOptions {
  readonly s3: S3Api;
  /** Without targets there are no rules. */
  readonly targets: EventTargetCache;
  readonly locks: StoreLocks;
  /** Called for rules that the store rejects: their objects are found late, by the sweep. */
  readonly report: (problem: unknown, what: string) => void;
}

/**
 * Notification rules of buckets, in plain S3: they take effect at once, and MinIO is never restarted (R1). Rules of others
 * stay. Rules that a Go manager created for a service are removed together with ours (docs/go-manager.md#in-minio).
 */
export class EventRules {
  readonly #options: EventRulesOptions;

  constructor(options: EventRulesOptions) {
    this.#options = options;
  }

  /**
   * Does not fail if the store has no targets, for example after a restart without them: without a rule, the sweep finds new
   * objects some minutes later.
   */
  async add(subscription: Subscription): Promise<void> {
    await this.#changeOrLeave(subscription.bucket, (rules, targets) => [
      ...rules.filter((rule) => !isOf(subscription, rule)),
      ...[...targets].map(([target, arn]) => ruleOf(subscription, target, arn)),
    ]);
  }

  async remove(subscription: Subscription): Promise<void> {
    await this.#changeOrLeave(subscription.bucket, (rules) =>
      rules.filter((rule) => !isOf(subscription, rule) && !isOfGo(subscription, rule)),
    );
  }

  /** Tests whether the store accepts a target, by writing and removing a rule. */
  async accepts(arn: string, probe: Subscription): Promise<boolean> {
    const others = (rules: readonly Elements[]) => rules.filter((rule) => !isOf(probe, rule));
    try {
      await this.#change(probe.bucket, (rules) => [...others(rules), ruleOf(probe, 'probe', arn)]);
    } catch (error) {
      if (describePermanentFailure(error) === undefined) throw error;
      return false;
    }
    await this.#change(probe.bucket, others);
    return true;
  }

  /** The store accepts all rules of a bucket or none. So an old rule with a missing target makes it reject new ones. */
  async #changeOrLeave(bucket: string, change: Change): Promise<void> {
    const { targets, report } = this.#options;
    try {
      return await this.#change(bucket, change, await targets.get());
    } catch (error) {
      if (!hasErrorCode(error, UNKNOWN_TARGET)) throw error;
    }
    const found = await targets.refreshAfterRejection();
    const there = new Set(found.values());
    try {
      await this.#change(bucket, (rules) =>
        change(rules, found).filter((rule) => !isOurs(rule) || there.has(arnOf(rule))),
      );
    } catch (error) {
      if (!hasErrorCode(error, UNKNOWN_TARGET)) throw error;
      const what = `the object store rejects the event rules of the bucket "${bucket}", so new objects are found late: check whether the bucket has a rule whose target no longer exists`;
      report(error, what);
    }
  }

  async #change(bucket: string, change: Change, targets: EventTargets = new Map()): Promise<void> {
    const { s3, locks } = this.#options;
    // Usually nothing has changed, and then no lock is needed.
    const look = async () => {
      const found = await s3.notification(bucket);
      const rules = found && rulesIn(found);
      const next = rules && change(rules.ours, targets);
      return next && !areSame(next, rules.ours) ? { ...rules.others, QueueConfiguration: next } : undefined;
    };
    if (!(await look())) return;
    await locks.withLock(`rules/${bucket}`, async () => {
      const next = await look();
      if (next) await s3.setNotification(bucket, next);
    });
  }
}

/**
 * Compares without order. Rules are not written without need: a MinIO that has just started does not show rules whose target
 * it has not loaded yet, and a write would remove those.
 */
function areSame(one: readonly Elements[], other: readonly Elements[]): boolean {
  const sorted = (rules: readonly Elements[]) => rules.map((rule) => JSON.stringify(rule)).toSorted();
  return isDeepStrictEqual(sorted(one), sorted(other));
}

/** The error code of a store for a rule with an unknown target, among others. */
const UNKNOWN_TARGET = 'InvalidArgument';

/** All rules with a queue, including rules that the manager did not create, and the rest of the configuration. */
function rulesIn(configuration: Element): { ours: readonly Elements[]; others: Elements } {
  const names = new Set(configuration.children.map(({ name }) => name));
  names.delete('QueueConfiguration');
  const others = [...names].map((name) => [name, childElements(configuration, name).map(contentOf)] as const);
  return {
    ours: childElements(configuration, 'QueueConfiguration').map(elementsOf),
    others: Object.fromEntries(others),
  };
}

function ruleOf(subscription: Subscription, target: string, arn: string): Elements {
  const rule = { Event: ['s3:ObjectCreated:*'], Filter: filterOf(subscription.prefix) };
  return normal({ Id: `${idOf(subscription)}${target}`, ...rule, Queue: arn });
}

const isOf = (subscription: Subscription, rule: Elements) => wordIn(rule, 'Id').startsWith(idOf(subscription));

const isOurs = (rule: Elements) => wordIn(rule, 'Id').startsWith(OURS);

const arnOf = (rule: Elements) => wordIn(rule, 'Queue');

/** The text of an element; empty if there is none. */
function wordIn(rule: Elements, name: string): string {
  const value = rule[name];
  const [word] = Array.isArray(value) ? (value as readonly unknown[]) : [value];
  return typeof word === 'string' ? word : '';
}

/** A Go manager has a target for each service, with the name of the service. */
function isOfGo({ service, prefix }: Subscription, rule: Elements): boolean {
  if (service === undefined) return false;
  const arn = arnOf(rule);
  const sent = arn.startsWith('arn:minio:sqs:') && arn.endsWith(`:${service}:webhook`);
  return sent && isDeepStrictEqual(rule['Filter'], normal({ Filter: filterOf(prefix) })['Filter']);
}

/** How the ids of our rules begin. */
const OURS = 'oscar/';

const filterOf = (prefix: string) => ({ S3Key: { FilterRule: [{ Name: 'prefix', Value: prefix }] } });

/** Hashed, because an id has at most 255 characters, and a prefix may have more. */
const idOf = ({ prefix, subscriber }: Subscription) => `${OURS}${subscriber}/${hash('sha256', prefix).slice(0, 16)}/`;

/** The content of an element with all children as lists, so that two can be compared. */
function elementsOf(element: Element): Elements {
  const names = [...new Set(element.children.map(({ name }) => name))].toSorted();
  return Object.fromEntries(names.map((name) => [name, childElements(element, name).map(contentOf)]));
}

const contentOf = (element: Element) => (element.children.length > 0 ? elementsOf(element) : element.text);

/** The same form for a rule that was not parsed from XML. */
function normal(elements: Elements): Elements {
  const entries = Object.entries(elements).map(([name, value]) => {
    const list = Array.isArray(value) ? (value as readonly (string | Elements)[]) : [value as string | Elements];
    return [name, list.map((each) => (typeof each === 'object' ? normal(each) : each))] as const;
  });
  return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** ARNs of event targets, by the name that the manager uses. */
export type EventTargets = ReadonlyMap<string, string>;

/** Caches the event targets of a store. A store can be restarted with other targets, or without any. */
export class EventTargetCache {
  readonly #ask: (before: EventTargets) => Promise<EventTargets>;
  readonly #believedMs: number;
  #known: { readonly names: EventTargets; readonly at: number } | undefined;
  #asking: Promise<EventTargets> | undefined;

  /** `ask` gets the previous targets, which need not be tested again. */
  constructor(ask: (before: EventTargets) => Promise<EventTargets>, believedMs: number) {
    this.#ask = ask;
    this.#believedMs = believedMs;
  }

  /** The cached targets, unless they are too old. */
  async get(): Promise<EventTargets> {
    const known = this.#known;
    return known && performance.now() - known.at < this.#believedMs ? known.names : this.refresh();
  }

  /** Reads the targets again. Concurrent callers share one request. */
  refresh(): Promise<EventTargets> {
    this.#asking ??= this.#ask(this.#known?.names ?? new Map())
      .then((names) => {
        this.#known = { names, at: performance.now() };
        return names;
      })
      .finally(() => {
        this.#asking = undefined;
      });
    return this.#asking;
  }

  /** Reads and tests all targets again, after the store has rejected a cached one. */
  async refreshAfterRejection(): Promise<EventTargets> {
    await this.#asking?.catch(() => undefined);
    this.#known = undefined;
    return this.refresh();
  }
}

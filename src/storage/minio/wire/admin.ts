import type { Secret } from '../../../base/secret.ts';
import type { StoreKeys } from '../../object-store.ts';
import { unless } from './refusal.ts';
import type { Requests } from './requests.ts';
import { sealed } from './sealed.ts';

export interface AdminOptions {
  readonly requests: Requests;
  /** Of an administrator of the store. */
  readonly keys: StoreKeys;
}

export interface StoreUser {
  /** Names of the policies that are attached to it. */
  readonly policies: readonly string[];
  readonly groups: readonly string[];
}

export interface StoreGroup {
  readonly members: readonly string[];
  readonly policies: readonly string[];
}

/** A policy document, as MinIO gives it: where one word would do, it has lists. */
export interface PolicyDocument {
  readonly ID?: string;
  readonly Version: string;
  readonly Statement: readonly Statement[];
}

export interface Statement {
  readonly Sid?: string;
  readonly Effect: string;
  readonly Action?: readonly string[];
  readonly NotAction?: readonly string[];
  readonly Resource?: readonly string[];
  readonly NotResource?: readonly string[];
  readonly Condition?: Readonly<Record<string, unknown>>;
}

export interface BucketUsage {
  readonly bytes: number;
  readonly objects: number;
}

const OPERATION = '/minio/admin/v3/';

/** MinIO's admin API: users, groups and their policies, quotas. Never what needs a restart (R1). */
export class Admin {
  readonly #options: AdminOptions;

  constructor(options: AdminOptions) {
    this.#options = options;
  }

  /** False for a name that the store takes for no access key. Again, or with another secret key: it has that one. */
  async putUser(accessKey: string, secretKey: Secret): Promise<boolean> {
    const text = JSON.stringify({ secretKey: secretKey.reveal(), status: 'enabled' });
    const body = await sealed(this.#options.keys.secretKey, text);
    const done = this.#call('PUT', 'add-user', { accessKey }, body).then(() => true);
    return (await unless(['XMinioAdminInvalidAccessKey', 'InvalidArgument'], done)) ?? false;
  }

  async user(accessKey: string): Promise<StoreUser | undefined> {
    const none = ['XMinioAdminNoSuchUser', 'XMinioAdminInvalidAccessKey'];
    const found = await unless(
      none,
      this.#read<{ policyName?: string; memberOf?: string[] }>('user-info', { accessKey }),
    );
    return found && { policies: names(found.policyName), groups: found.memberOf ?? [] };
  }

  async group(group: string): Promise<StoreGroup | undefined> {
    const found = this.#read<{ members?: string[]; policy?: string }>('group', { group });
    const known = await unless(['XMinioAdminNoSuchGroup'], found);
    return known && { members: known.members ?? [], policies: names(known.policy) };
  }

  /** Makes the group if it is not there. All members must be users. */
  async addMembers(group: string, members: readonly string[]): Promise<void> {
    await this.#members(group, members, false);
  }

  async removeMembers(group: string, members: readonly string[]): Promise<void> {
    await this.#members(group, members, true);
  }

  /** Only one that has no members. */
  async removeGroup(group: string): Promise<void> {
    await unless(['XMinioAdminNoSuchGroup'], this.#members(group, [], true));
  }

  async policy(name: string): Promise<PolicyDocument | undefined> {
    const found = this.#read<{ Policy: PolicyDocument }>('info-canned-policy', { name, v: '2' });
    return (await unless(['XMinioAdminNoSuchPolicy'], found))?.Policy;
  }

  policies(): Promise<Record<string, PolicyDocument>> {
    return this.#read('list-canned-policies', {});
  }

  async putPolicy(name: string, document: PolicyDocument): Promise<void> {
    await this.#call('PUT', 'add-canned-policy', { name }, JSON.stringify(document));
  }

  async removePolicy(name: string): Promise<void> {
    await this.#call('DELETE', 'remove-canned-policy', { name });
  }

  /** Replaces whatever was attached. */
  async attach(policies: readonly string[], to: { readonly user: string } | { readonly group: string }): Promise<void> {
    const who = 'user' in to ? { userOrGroup: to.user, isGroup: 'false' } : { userOrGroup: to.group, isGroup: 'true' };
    const done = this.#call('PUT', 'set-user-or-group-policy', { policyName: policies.join(','), ...who });
    await unless(['XMinioAdminPolicyChangeAlreadyApplied'], done);
  }

  /** Bytes; undefined for no limit. */
  async quota(bucket: string): Promise<number | undefined> {
    const none = ['NoSuchBucket', 'XMinioAdminBucketQuotaNotFound', 'NoSuchQuotaConfiguration'];
    const found = await unless(none, this.#read<{ quota?: number; size?: number }>('get-bucket-quota', { bucket }));
    return found?.size || found?.quota || undefined;
  }

  async setQuota(bucket: string, bytes: number | null): Promise<void> {
    const quota = bytes ?? 0;
    await this.#call('PUT', 'set-bucket-quota', { bucket }, JSON.stringify({ quota, size: quota, quotatype: 'hard' }));
  }

  /** What the store has counted in its own time, by bucket: those it has not come to yet are not there. */
  async usage(): Promise<Map<string, BucketUsage>> {
    type Counted = { bucketsUsageInfo?: Record<string, { size?: number; objectsCount?: number }> | null };
    const { bucketsUsageInfo } = await this.#read<Counted>('datausageinfo', {});
    const entries = Object.entries(bucketsUsageInfo ?? {});
    return new Map(
      entries.map(([name, { size = 0, objectsCount = 0 }]) => [name, { bytes: size, objects: objectsCount }]),
    );
  }

  /** Where the store can send events, as it was told when it was started. */
  async targets(): Promise<readonly string[]> {
    return (await this.#info()).sqsARN ?? [];
  }

  /** Seconds that each of its servers has been up, also one that is still starting. One that is away does not count. */
  async upFor(): Promise<readonly number[]> {
    const { servers = [] } = await this.#info();
    return servers.filter(({ state }) => state !== 'offline').map(({ uptime = 0 }) => uptime);
  }

  #info(): Promise<{ sqsARN?: string[]; servers?: { state?: string; uptime?: number }[] }> {
    return this.#read('info', {});
  }

  async #members(group: string, members: readonly string[], isRemove: boolean): Promise<void> {
    const body = JSON.stringify({ group, members, isRemove, groupStatus: 'enabled' });
    await this.#call('PUT', 'update-group-members', {}, body);
  }

  async #read<T>(operation: string, query: Record<string, string>): Promise<T> {
    const { body } = await this.#call('GET', operation, query);
    return JSON.parse(body.toString()) as T;
  }

  #call(
    method: 'GET' | 'PUT' | 'DELETE',
    operation: string,
    query: Record<string, string>,
    body?: string | Uint8Array,
  ) {
    const { requests, keys } = this.#options;
    return requests.send({ method, path: OPERATION + operation, query, ...(body !== undefined && { body }) }, keys);
  }
}

const names = (list = '') => list.split(',').filter((name) => name !== '');

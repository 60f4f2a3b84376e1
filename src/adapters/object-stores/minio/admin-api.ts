import { createCipheriv, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import type { Secret } from '../../../lib/secret.ts';
import type { StoreKeys } from '../../../ports/index.ts';
import { type SignedHttpClient, undefinedOn } from '../s3/index.ts';

interface MinioAdminOptions {
  readonly requests: SignedHttpClient;
  /** The keys of an administrator of the store. */
  readonly keys: StoreKeys;
}

export interface StoreUser {
  /** Names of the attached policies. */
  readonly policies: readonly string[];
  readonly groups: readonly string[];
}

interface StoreGroup {
  readonly members: readonly string[];
  readonly policies: readonly string[];
}

/** A policy document as MinIO returns it: always with lists, also for a single value. */
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

/** A client of MinIO's admin API: users, groups, their policies, quotas. It never makes a change that needs a restart (R1). */
export class MinioAdmin {
  readonly #options: MinioAdminOptions;

  constructor(options: MinioAdminOptions) {
    this.#options = options;
  }

  /** Creates the user, or replaces its secret key. Returns false if the store does not accept the name as an access key. */
  async putUser(accessKey: string, secretKey: Secret): Promise<boolean> {
    const text = JSON.stringify({ secretKey: secretKey.reveal(), status: 'enabled' });
    const body = await encryptAdminBody(this.#options.keys.secretKey, text);
    const done = this.#call('PUT', 'add-user', { accessKey }, body).then(() => true);
    return (await undefinedOn(['XMinioAdminInvalidAccessKey', 'InvalidArgument'], done)) ?? false;
  }

  async user(accessKey: string): Promise<StoreUser | undefined> {
    const none = ['XMinioAdminNoSuchUser', 'XMinioAdminInvalidAccessKey'];
    const found = await undefinedOn(
      none,
      this.#read<{ policyName?: string; memberOf?: string[] }>('user-info', { accessKey }),
    );
    return found && { policies: names(found.policyName), groups: found.memberOf ?? [] };
  }

  async group(group: string): Promise<StoreGroup | undefined> {
    const found = this.#read<{ members?: string[]; policy?: string }>('group', { group });
    const known = await undefinedOn(['XMinioAdminNoSuchGroup'], found);
    return known && { members: known.members ?? [], policies: names(known.policy) };
  }

  /** Creates the group if it is missing. All members must be users. */
  async addMembers(group: string, members: readonly string[]): Promise<void> {
    await this.#members(group, members, false);
  }

  async removeMembers(group: string, members: readonly string[]): Promise<void> {
    await this.#members(group, members, true);
  }

  /** The group must have no members. */
  async removeGroup(group: string): Promise<void> {
    await undefinedOn(['XMinioAdminNoSuchGroup'], this.#members(group, [], true));
  }

  async policy(name: string): Promise<PolicyDocument | undefined> {
    const found = this.#read<{ Policy: PolicyDocument }>('info-canned-policy', { name, v: '2' });
    return (await undefinedOn(['XMinioAdminNoSuchPolicy'], found))?.Policy;
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

  /** Replaces the attached policies. */
  async attach(policies: readonly string[], to: { readonly user: string } | { readonly group: string }): Promise<void> {
    const who = 'user' in to ? { userOrGroup: to.user, isGroup: 'false' } : { userOrGroup: to.group, isGroup: 'true' };
    const done = this.#call('PUT', 'set-user-or-group-policy', { policyName: policies.join(','), ...who });
    await undefinedOn(['XMinioAdminPolicyChangeAlreadyApplied'], done);
  }

  /** In bytes; undefined if there is no limit. */
  async quota(bucket: string): Promise<number | undefined> {
    const none = ['NoSuchBucket', 'XMinioAdminBucketQuotaNotFound', 'NoSuchQuotaConfiguration'];
    const found = await undefinedOn(
      none,
      this.#read<{ quota?: number; size?: number }>('get-bucket-quota', { bucket }),
    );
    return found?.size || found?.quota || undefined;
  }

  async setQuota(bucket: string, bytes: number | null): Promise<void> {
    const quota = bytes ?? 0;
    await this.#call('PUT', 'set-bucket-quota', { bucket }, JSON.stringify({ quota, size: quota, quotatype: 'hard' }));
  }

  /** The store's own count by bucket. It counts in the background, so buckets that it has not counted yet are missing. */
  async usage(): Promise<Map<string, BucketUsage>> {
    type Counted = { bucketsUsageInfo?: Record<string, { size?: number; objectsCount?: number }> | null };
    const { bucketsUsageInfo } = await this.#read<Counted>('datausageinfo', {});
    const entries = Object.entries(bucketsUsageInfo ?? {});
    return new Map(
      entries.map(([name, { size = 0, objectsCount = 0 }]) => [name, { bytes: size, objects: objectsCount }]),
    );
  }

  /** The targets to which the store can send events, from its configuration at start. */
  async targets(): Promise<readonly string[]> {
    return (await this.#info()).sqsARN ?? [];
  }

  /** The uptime of each MinIO server in seconds. Servers that are starting are included, offline servers are not. */
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

/**
 * The id of PBKDF2-HMAC-SHA256 with AES-256-GCM: of the three algorithms that the server accepts, the one that does not need
 * Argon2 with its 64 MiB. Encrypted responses use another one, but the manager reads none of these.
 */
const PBKDF2_AES = 2;
const ITERATIONS = 8192;

/** Bytes of plain text in a fragment. */
const FRAGMENT = 16_384;

const NONE = new Uint8Array();
const MORE = 0x00;
const LAST = 0x80;

/**
 * Encrypts a request body of MinIO's admin API that contains secrets, with the secret key of the caller. The format is salt,
 * algorithm id, nonce, and then fragments. Each is authenticated with its number and whether it is the last one, so that none
 * can be removed.
 */
export async function encryptAdminBody(secretKey: Secret, text: string): Promise<Buffer> {
  const plain = Buffer.from(text);
  const salt = randomBytes(32);
  const nonce = randomBytes(8);
  const key = await promisify(pbkdf2)(secretKey.reveal(), salt, ITERATIONS, 32, 'sha256');
  const seal = (number: number, fragment: Uint8Array, context: Uint8Array): Buffer => {
    const place = Buffer.alloc(4);
    place.writeUInt32LE(number);
    const cipher = createCipheriv('aes-256-gcm', key, Buffer.concat([nonce, place]));
    cipher.setAAD(context);
    return Buffer.concat([cipher.update(fragment), cipher.final(), cipher.getAuthTag()]);
  };
  const beginning = seal(0, NONE, NONE);
  const fragments: Buffer[] = [];
  let at = 0;
  do {
    const end = at + FRAGMENT;
    const flag = Buffer.of(end >= plain.length ? LAST : MORE);
    fragments.push(seal(fragments.length + 1, plain.subarray(at, end), Buffer.concat([flag, beginning])));
    at = end;
  } while (at < plain.length);
  return Buffer.concat([salt, Buffer.of(PBKDF2_AES), nonce, ...fragments]);
}

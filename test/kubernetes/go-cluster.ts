import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  CreateBucketCommand,
  PutBucketNotificationConfigurationCommand,
  PutBucketTaggingCommand,
  type QueueConfiguration,
} from '@aws-sdk/client-s3';
import { FROM_GO } from '../../src/adapters/kubernetes/stores/from-go.fixture.ts';
import { MinioAdmin } from '../../src/adapters/object-stores/minio/admin-api.ts';
import { SignedHttpClient } from '../../src/adapters/object-stores/s3/signed-http-client.ts';
import { namespaceFor } from '../../src/identity/index.ts';
import { Secret } from '../../src/lib/secret.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { type Minio, ROOT } from '../minio/minio.ts';
import { ALICE, BOB } from '../support/issuer-users.ts';
import type { Admin } from './admin.ts';
import { SERVICES_NAMESPACE } from './testbed.ts';

export const ALICES_NAMESPACE = namespaceFor(ALICE.sub, SERVICES_NAMESPACE);

/**
 * The token of all services. MinIO sends it with all events, because a Go manager configures each webhook with the
 * token of its service.
 */
export const TOKEN = '9f'.repeat(32);

/** Keys that Alice still uses. */
export const ALICES_KEYS = { accessKey: new Secret(ALICE.sub), secretKey: new Secret('alices-old-key') };

export const finishedJobOf = (service: string) => `${service}-0b7b4a5e-6f7c-4f4e-9a55-3f1f6f5d2a10`;
export const waitingJobOf = (service: string) => `${service}-1c8c5b6f-708d-5a5f-8b66-402f70e63b21`;
export const NOBODYS_JOB = 'a-cleaning';

/**
 * Creates what a Go manager leaves in a cluster (docs/go-manager.md): the services `plants` and `weeds` of Alice, which
 * Bob may use, with an output in one of her other buckets; the service `herds` of the administrator, whose input is in
 * a bucket that existed before; jobs; keys of users; and buckets of all kinds.
 */
export async function layOut(admin: Admin, minio: Minio): Promise<void> {
  await layOutCluster(admin);
  await layOutStore(minio);
}

async function layOutCluster(admin: Admin): Promise<void> {
  const ownerHash = createHash('sha1').update(ALICE.sub).digest('hex');
  await admin.do('POST', '/api/v1/namespaces', { metadata: { name: SERVICES_NAMESPACE } });
  await admin.do('POST', '/api/v1/namespaces', {
    metadata: {
      name: ALICES_NAMESPACE,
      labels: {
        'app.kubernetes.io/managed-by': 'oscar',
        'oscar.grycap.upv.es/lifecycle': 'active',
        'oscar.grycap.upv.es/owner-hash': ownerHash,
      },
      annotations: { 'oscar.grycap.upv.es/owner': ALICE.sub },
    },
  });
  const given = FROM_GO.data?.['function_config.yaml'] ?? '';
  const plants = given
    .replace(/^owner: .*$/m, `owner: ${ALICE.sub}`)
    .replace(/^vo: .*$/m, 'vo: /oscar')
    .replace(/^allowed_users: .*$/m, `allowed_users: ['${BOB.sub}']`)
    .replace(/^expose:$/m, '- storage_provider: minio.default\n  path: alices/results\nexpose:');
  const herds = plants
    .replace(/^output:\n(.*\n)*?expose:$/m, 'output: []\nexpose:')
    .replaceAll('plants', 'herds')
    .replace('path: herds/in', 'path: pastures/in')
    .replace(/^owner: .*$/m, 'owner: cluster_admin')
    .replace(/^visibility: .*$/m, 'visibility: private');
  for (const [name, namespace, config] of [
    ['plants', ALICES_NAMESPACE, plants],
    ['weeds', ALICES_NAMESPACE, plants.replaceAll('plants', 'weeds')],
    ['herds', SERVICES_NAMESPACE, herds],
  ] as const) {
    const labels = { oscar_service: name };
    const data = { 'function_config.yaml': config, 'script.sh': `echo ${name}\n` };
    const template = { spec: { containers: [{ name: 'oscar-container', image: 'ghcr.io/grycap/plants' }] } };
    await admin.do('POST', `/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name, labels }, data });
    await admin.do('POST', `/api/v1/namespaces/${namespace}/podtemplates`, { metadata: { name, labels }, template });
    await secret(admin, namespace, name, { API_KEY: `of ${name}` });
    await job(admin, namespace, finishedJobOf(name), name);
    await finish(admin, namespace, finishedJobOf(name));
    await job(admin, namespace, waitingJobOf(name), name);
  }
  await secret(admin, SERVICES_NAMESPACE, 'minio', { accessKey: 'root', secretKey: 'of the store' });
  for (const [uid, secretKey] of [
    [ALICE.sub, ALICES_KEYS.secretKey.reveal()],
    [BOB.sub, 'bobs-old-key'],
  ] as const) {
    await secret(admin, SERVICES_NAMESPACE, uid, { oidc_uid: uid, accessKey: uid, secretKey });
  }
  await job(admin, ALICES_NAMESPACE, NOBODYS_JOB);
}

async function secret(admin: Admin, namespace: string, name: string, stringData: Record<string, string>) {
  await admin.do('POST', `/api/v1/namespaces/${namespace}/secrets`, { metadata: { name }, stringData });
}

/**
 * Creates a Job as the Go manager does (docs/go-manager.md#kubernetes-objects). No scheduler runs here, so it gets no
 * node.
 */
async function job(admin: Admin, namespace: string, name: string, service?: string): Promise<void> {
  const labels = service === undefined ? {} : { oscar_service: service };
  const container = {
    name: 'oscar-container',
    image: 'ghcr.io/grycap/plants',
    command: ['/bin/sh'],
    args: ['-c', 'echo $EVENT | /oscar/bin/supervisor'],
    env: [
      { name: 'EVENT', value: '{"Records":[]}' },
      { name: 'JOB_UUID', value: name },
    ],
  };
  await admin.do('POST', `/apis/batch/v1/namespaces/${namespace}/jobs`, {
    metadata: { name, labels },
    spec: {
      backoffLimit: 0,
      ttlSecondsAfterFinished: 2_592_000,
      template: { metadata: { labels }, spec: { restartPolicy: 'Never', containers: [container] } },
    },
  });
}

/** Reports the pod as succeeded; Kubernetes then completes the Job. */
async function finish(admin: Admin, namespace: string, name: string): Promise<void> {
  const selector = encodeURIComponent(`job-name=${name}`);
  const pod = await eventually(async () => {
    const { items } = (await admin.do('GET', `/api/v1/namespaces/${namespace}/pods?labelSelector=${selector}`)) as {
      items: { metadata: { name: string } }[];
    };
    assert.ok(items[0], 'the pod of the Job was not created');
    return items[0].metadata.name;
  }, 30_000);
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/status`;
  await admin.do('PATCH', path, { status: { phase: 'Succeeded' } }, 'application/merge-patch+json');
  await eventually(async () => {
    const { status } = (await admin.do('GET', `/apis/batch/v1/namespaces/${namespace}/jobs/${name}`)) as {
      status: { completionTime?: string };
    };
    assert.ok(status.completionTime, 'the Job is not complete');
  }, 30_000);
}

async function layOutStore(minio: Minio): Promise<void> {
  const { client, put } = storeClient(minio, ROOT);
  const bucket = async (Bucket: string, tags?: Record<string, string>) => {
    await client.send(new CreateBucketCommand({ Bucket }));
    if (!tags) return;
    const TagSet = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
    await client.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
  };
  for (const name of ['plants', 'weeds']) {
    await bucket(name, { owner: ALICE.sub, owner_name: 'Alice', from_service: name });
    for (const key of ['in/', 'in/old.txt', 'out/', 'out/old.txt']) await put(name, key, key.endsWith('/') ? '' : key);
  }
  await bucket('alices', { owner: ALICE.sub, owner_name: 'Alice' });
  await bucket('everyones', { owner: BOB.sub, owner_name: 'Bob' });
  await bucket('pastures', { owner: 'oscar', owner_name: 'oscar' });
  await bucket('untouched');
  await put('alices', 'mine.txt', 'of Alice');

  const rule = (target: string, Value: string): QueueConfiguration => ({
    Id: `${target}-${Value}`,
    QueueArn: `arn:minio:sqs::${target}:webhook`,
    Events: ['s3:ObjectCreated:*'],
    Filter: { Key: { FilterRules: [{ Name: 'prefix', Value }] } },
  });
  for (const [Bucket, QueueConfigurations] of [
    ['plants', [rule('plants', 'in/')]],
    ['weeds', [rule('weeds', 'in/')]],
    ['pastures', [rule('herds', 'in/'), rule('plants', 'other/')]],
  ] as const) {
    const NotificationConfiguration = { QueueConfigurations: [...QueueConfigurations] };
    await client.send(new PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration }));
  }
  await layOutRights(minio);
}

async function layOutRights({ endpoint, region }: Minio): Promise<void> {
  const requests = new SignedHttpClient({ endpoint, region, verify: true });
  const admin = new MinioAdmin({ requests, keys: ROOT });
  const allow = (Action: string[], ...buckets: string[]) => ({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action, Resource: buckets.map((name) => `arn:aws:s3:::${name}/*`) }],
  });
  const shared = ['s3:ListBucket', 's3:GetObject', 's3:PutObject', 's3:DeleteObject'];
  await admin.putUser(ALICE.sub, ALICES_KEYS.secretKey);
  await admin.putUser(BOB.sub, new Secret('bobs-old-key'));
  await admin.addMembers('all_users_group', [ALICE.sub, BOB.sub]);
  await admin.putPolicy(ALICE.sub, allow(['s3:*'], 'plants', 'weeds', 'alices'));
  await admin.attach([ALICE.sub], { user: ALICE.sub });
  await admin.putPolicy('all_users_group', allow(['s3:*'], 'everyones'));
  await admin.attach(['all_users_group'], { group: 'all_users_group' });
  for (const name of ['plants', 'weeds']) {
    await admin.putPolicy(name, allow(shared, name));
    await admin.addMembers(name, [BOB.sub]);
    await admin.attach([name], { group: name });
  }
  requests.close();
}

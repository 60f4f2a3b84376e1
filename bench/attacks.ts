import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { Outside, service } from '../test/support/jobs.ts';
import type { Attack } from './support/attacker.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { type ManagerProcess, startManagerProcess } from './support/manager-process.ts';
import { percentile } from './support/statistics.ts';
import { startUser } from './support/user.ts';

export const description = '99th percentile of GET /health while strangers and users attack the manager';

const under = (what: string) => ({ what: `/health, p99, ${what}`, unit: 'ms', reach: ['<', 100] }) as const;

export const figures = {
  quiet: { what: '/health, p99, without an attack', unit: 'ms' },
  strangerBodies: under('64 strangers send bodies of 1 MB'),
  slowConnections: under('1,000 connections never finish their headers'),
  wrongPasswords: under('64 connections try passwords'),
  hugeDefinitions: under('8 connections of a user send definitions of 60,000 variables'),
  wildcardPolicies: under('16 connections read with a policy full of wildcards'),
  userFlood: under('256 connections of one user list 100 services'),
  uploadFlood: under('64 connections of one user upload 64 KB each'),
} satisfies Record<string, Figure>;

/** How long each attack lasts, how long it lasts before it is measured, and how often `/health` is asked meanwhile. */
const ATTACK_MS = 6_000;
const WARM_UP_MS = 2_000;
const ASK_EVERY_MS = 20;

const ATTACKER = fileURLToPath(import.meta.resolve('./support/attacker.ts'));

/** The longest session policy that the store accepts: as many wildcards as fit. */
const WILDCARDS = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: 's3:*', Resource: [`arn:aws:s3:::${'*a'.repeat(900)}`, 'arn:aws:s3:::*'] }],
});

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  await using manager = await startManagerProcess({ settings: user.settings });
  const outside = new Outside(manager.url);
  await outside.create(user.as, service('victim', 'true'));
  for (let i = 0; i < 99; i++) await outside.create(user.as, service(`s-${i}`, 'true', { input: [], output: [] }));

  const { url } = manager;
  const authorization = user.as;
  const flood = (connections: number, method: string, path: string, more: object = {}): Attack => ({
    kind: 'flood',
    url: path.startsWith('http') ? path : `${url}${path}`,
    connections,
    method,
    headers: {},
    ...more,
  });
  const { put, read } = await presignedUrls(outside, user.as);
  const wrong = `Basic ${Buffer.from('oscar:wrong').toString('base64')}`;
  return {
    quiet: await healthDuring(undefined, manager),
    strangerBodies: await healthDuring(flood(64, 'POST', '/system/services', { body: 1_000_000 }), manager),
    slowConnections: await healthDuring({ kind: 'slow', url, connections: 1_000 }, manager),
    wrongPasswords: await healthDuring(
      flood(64, 'GET', '/system/info', { headers: { authorization: wrong } }),
      manager,
    ),
    hugeDefinitions: await healthDuring(
      flood(8, 'POST', '/system/services', { headers: { authorization }, body: hugeDefinition() }),
      manager,
    ),
    wildcardPolicies: await healthDuring(flood(16, 'GET', read), manager),
    userFlood: await healthDuring(flood(256, 'GET', '/system/services', { headers: { authorization } }), manager),
    uploadFlood: await healthDuring(flood(64, 'PUT', put, { body: 65_536 }), manager),
  };
}

/** Below the limit of a body, and far above that of variables. */
function hugeDefinition(): string {
  const variables = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`V_${i}`, 'value']));
  return JSON.stringify({ name: 'huge', image: 'busybox', script: 'true', environment: { variables } });
}

/** URLs that a client without a library can use: to upload as the user, and to read with keys that the policy restricts. */
async function presignedUrls(outside: Outside, as: string): Promise<{ put: string; read: string }> {
  const { endpoint, region, access_key, secret_key } = await outside.provider(as);
  const credentials = { accessKeyId: access_key, secretAccessKey: secret_key };
  const s3 = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
  const sts = new STSClient({ endpoint, region, credentials });
  const at = { Bucket: 'victim', Key: 'flood/a' };
  await s3.send(new PutObjectCommand({ ...at, Body: 'x' }));
  const { Credentials } = await sts.send(
    new AssumeRoleCommand({ RoleArn: 'arn:aws:iam::0:role/x', RoleSessionName: 'x', Policy: WILDCARDS }),
  );
  assert.ok(Credentials);
  const { AccessKeyId = '', SecretAccessKey = '', SessionToken = '' } = Credentials;
  const session = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken },
  });
  const expiresIn = 3_600;
  const [put, read] = await Promise.all([
    getSignedUrl(s3, new PutObjectCommand(at), { expiresIn }),
    getSignedUrl(session, new GetObjectCommand(at), { expiresIn }),
  ]);
  assert.equal((await fetch(read)).status, 200);
  return { put, read };
}

/** The 99th percentile of the answers of `/health` during the attack. */
async function healthDuring(attack: Attack | undefined, { url }: ManagerProcess): Promise<number> {
  await using attacker = attack && (await startAttacker(attack));
  await pause(WARM_UP_MS);
  const times = await timesOfHealth(url);
  assert.ok(!attacker || (await attacker.stop()) > 0, 'there was no attack');
  return percentile(times, 99);
}

async function startAttacker(attack: Attack) {
  const child = spawn(process.execPath, [ATTACKER], { stdio: ['pipe', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  const lines: string[] = [];
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  createInterface(child.stdout).on('line', (line) => {
    lines.push(line);
    resolve();
  });
  child.stdin.end(JSON.stringify(attack));
  await Promise.race([begun, closed]);
  const stop = async () => {
    child.kill('SIGTERM');
    await closed;
    return Number(lines.at(-1));
  };
  return { stop, [Symbol.asyncDispose]: async () => void (await stop()) };
}

async function timesOfHealth(url: string): Promise<number[]> {
  // From another address than that of the attackers, which has limits.
  const agent = new Agent({ keepAlive: true, localAddress: '127.0.0.2' });
  const asked: Promise<number>[] = [];
  const end = performance.now() + ATTACK_MS;
  while (performance.now() < end) {
    asked.push(askHealth(url, agent));
    await pause(ASK_EVERY_MS);
  }
  const results = await Promise.allSettled(asked);
  agent.destroy();
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

const DEADLINE_MS = 30_000;

/** How long the answer took. Rejects unless it is 200. */
function askHealth(url: string, agent: Agent): Promise<number> {
  const begun = performance.now();
  return new Promise((resolve, reject) => {
    const asked = get(`${url}/health`, { agent, timeout: DEADLINE_MS }, (answer) => {
      answer.resume().once('close', () => {
        if (answer.statusCode === 200 && answer.complete) resolve(performance.now() - begun);
        else reject(new Error(`/health answered ${answer.statusCode}`));
      });
    });
    asked.once('timeout', () => asked.destroy(new Error(`/health did not answer in ${DEADLINE_MS} ms`)));
    asked.once('error', reject);
  });
}

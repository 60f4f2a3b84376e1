import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { bothAt, Minio } from '../minio/minio.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { ADMIN, call } from '../support/manager.ts';
import { Certificates } from './certificates.ts';
import { GATEWAY } from './node/names.ts';
import { PodManagers, type Replica } from './pod-managers.ts';

/** A MinIO whose certificate is signed by the operator's own authority, which no image trusts. */

const PATIENCE = { timeout: 300_000 };
const directory = mkdtempSync(join(tmpdir(), 'oscar-authority-'));
let our: PodManagers;
let minio: Minio;
let manager: Replica;
let authority: Certificates;

before(async () => {
  our = await PodManagers.start();
  authority = await Certificates.make(directory);
  await authority.server('minio', `IP:${GATEWAY}`);
  const tls = { key: read('minio.key'), certificate: read('minio.crt') };
  const [port = 0] = await freePorts(1);
  minio = await Minio.start({ host: GATEWAY, tls, hooks: bothAt(`http://${GATEWAY}:${port}/system/events/storage`) });
  manager = await our.replica({
    ...minio.settings,
    OSCAR_LISTEN: `${GATEWAY}:${port}`,
    NODE_EXTRA_CA_CERTS: authority.path('ca.crt'),
  });
}, PATIENCE);
after(async () => {
  await minio?.stop();
  await our?.stop();
  rmSync(directory, { recursive: true, force: true });
}, PATIENCE);

const read = (file: string) => readFileSync(authority.path(file), 'utf8');

/** Uses a presigned URL like a browser that trusts the authority. */
async function transfer(bucket: string, key: string, body?: string): Promise<string> {
  const operation = body === undefined ? 'download' : 'upload';
  const signed = await call(manager.url, 'POST', `/system/buckets/${bucket}/presign`, {
    as: ADMIN,
    body: { object_key: key, operation },
  });
  assert.equal(signed.status, 200, signed.text);
  const { url, method } = signed.json() as { url: string; method: string };
  const request = https.request(url, { method, ca: read('ca.crt') }).end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const said = await text(response);
  assert.equal(response.statusCode, 200, said);
  return said;
}

test('private authority: staging trusts the authorities of the manager', PATIENCE, async () => {
  const at = (path: string) => [{ storage_provider: 'minio.default', path }];
  const body = {
    name: 'copy',
    image: BUSYBOX,
    cpu: '0.05',
    memory: '16Mi',
    input: at('house/in'),
    output: at('house/out'),
    script: '#!/bin/sh\ntr a-z A-Z < "$INPUT_FILE_PATH" > "$TMP_OUTPUT_DIR/result.txt"\n',
  };
  const created = await call(manager.url, 'POST', '/system/services', { as: ADMIN, body });
  assert.equal(created.status, 201, created.text);
  await transfer('house', 'in/word.txt', 'quiet');
  await eventually(
    async () => {
      const jobs = await call(manager.url, 'GET', '/system/jobs/copy', { as: ADMIN });
      assert.match(jobs.text, /"state":"succeeded"/);
    },
    120_000,
    200,
  );
  assert.equal(await transfer('house', 'out/result.txt'), 'QUIET');
});

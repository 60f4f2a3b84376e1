import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { before, type TestContext, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { TEST_CERTIFICATE } from '../../lib/http/certificate.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import type { StoreAccess } from '../../model/job/index.ts';
import { davServer } from './dav-server.fixture.ts';
import { scratch } from './embedded-store.fixture.ts';
import { AWAY_STORE_PATIENCE, FULL_STORE_PATIENCE, type StagingError, storePatience } from './errors.ts';
import { createTransfers } from './transfers.ts';

const trusted = getCACertificates('default');
before(() => setDefaultCACertificates([...trusted, TEST_CERTIFICATE]));

/** What a store answers to every request; `nobody`: nothing listens at its address. */
type Fault = { readonly status: number; readonly code?: string } | 'nobody' | 'cut';

/** What becomes of the results: they wait for the store, or the job fails. */
const FAULTS: readonly [name: string, fault: Fault, code: StagingError['code'], why: RegExp, patience: number][] = [
  ['forbids it', { status: 403, code: 'AccessDenied' }, 'output-failed', /denied|not allowed|403|rejects/, 0],
  ['has no such bucket', { status: 404, code: 'NoSuchBucket' }, 'output-failed', /does not exist|404/, 0],
  ['is not available', { status: 503, code: 'ServiceUnavailable' }, 'store-away', /./, AWAY_STORE_PATIENCE],
  ['is overloaded', { status: 429, code: 'SlowDown' }, 'store-away', /./, AWAY_STORE_PATIENCE],
  ['is full', { status: 507, code: 'XMinioStorageFull' }, 'store-full', /full/, FULL_STORE_PATIENCE],
  ['is not there', 'nobody', 'store-away', /nothing listens there/, AWAY_STORE_PATIENCE],
  ['cuts every connection', 'cut', 'store-away', /cannot be reached/, AWAY_STORE_PATIENCE],
];

async function s3Stand(t: TestContext, fault: Fault): Promise<StoreAccess> {
  const server = createServer((request, response) => {
    request.resume();
    if (fault === 'cut' || fault === 'nobody') return void request.socket.destroy();
    response.writeHead(fault.status, { 'content-type': 'application/xml' });
    response.end(`<?xml version="1.0"?><Error><Code>${fault.code}</Code><Message>no</Message></Error>`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((done) => server.close(done));
  };
  t.after(close);
  if (fault === 'nobody') await close();
  const keys = { accessKey: new Secret('a'), secretKey: new Secret('s') };
  return {
    type: 's3',
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    ...keys,
    verify: true,
    guarded: false,
  };
}

async function webdavStand(t: TestContext, fault: Fault): Promise<StoreAccess> {
  if (fault === 'nobody') {
    const away = await s3Stand(t, fault);
    const hostname = new URL(away.type === 's3' ? (away.endpoint ?? '') : '').host;
    return { type: 'webdav', hostname, login: 'u', password: new Secret('p'), guarded: false };
  }
  const { access } = await davServer(t, () => (request, response) => {
    request.resume();
    if (fault === 'cut') request.socket.destroy();
    else response.writeHead(fault.status).end();
  });
  return access;
}

for (const [kind, stand] of [
  ['S3', s3Stand],
  ['WebDAV', webdavStand],
] as const) {
  for (const [name, fault, code, why, patience] of FAULTS) {
    test(`output: a ${kind} store that ${name}: ${patience > 0 ? 'the results wait' : 'the job fails'}, with the reason`, async (t) => {
      const access = await stand(t, fault);
      const directory = scratch(t);
      writeFileSync(join(directory, 'a'), 'A');
      const staging = createTransfers([]);
      t.after(() => staging.close());
      const bucket = kind === 'S3' ? 'results' : '';
      const output = { store: 'far', bucket, folder: 'out', prefix: [], suffix: [] };
      const { files } = await staging.plan(directory, [output]);
      const stores = new Map([['far', access]]);
      const error = await staging.upload({ directory, files, stores, attempt: 'x', resumed: false }).then(
        () => assert.fail('it was written'),
        (failure: StagingError) => failure,
      );
      assert.equal(error.code, code, error.message);
      assert.match(error.message, /^the output "a" could not be written to far/);
      assert.match(error.message, why);
      assert.equal(storePatience(error), patience);
    });
  }
}

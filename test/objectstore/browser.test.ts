import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, type TestContext, test } from 'node:test';
import { PutBucketCorsCommand } from '@aws-sdk/client-s3';
import type { Browser, Page } from 'playwright-core';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { NO_BROWSER, startBrowser } from '../support/browser.ts';
import { ANA, startStore, type TestStore } from './start-store.ts';

/**
 * A page in a real browser uploads to a store at another origin and reads the object back, with presigned URLs and no
 * keys. Without chromium the tests are skipped with a message.
 */

const Bucket = 'photos';
const key = 'in/a b.bin';

/** A header that causes a preflight, as dashboards send it. */
const HEADERS = { 'content-type': 'application/octet-stream', 'x-amz-meta-camera': 'one' };

let browser: Browser | undefined;

before(async () => {
  browser = await startBrowser();
});
after(() => browser?.close());

interface Visit extends TestStore {
  readonly page: Page;
  /** The origin of the page. */
  readonly origin: string;
  /** The methods of all requests to the store, including preflights, in any order. */
  readonly asked: readonly string[];
}

/** Opens a page of another origin than the store. */
function browserTest(name: string, work: (visit: Visit) => Promise<void>): void {
  test(name, async (t: TestContext) => {
    if (!browser) {
      t.diagnostic(`NOT TESTED with a browser: ${NO_BROWSER}`);
      t.skip(`NOT TESTED: ${NO_BROWSER}`);
      return;
    }
    await using store = await startStore();
    await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
    const site = createServer((_, response) => {
      response.setHeader('content-type', 'text/html').end('<!doctype html><title>a dashboard</title>');
    });
    site.listen(0, '127.0.0.1');
    await once(site, 'listening');
    t.after(() => site.close());
    const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    const context = await browser.newContext();
    t.after(() => context.close());
    const page = await context.newPage();
    const asked: string[] = [];
    const network = await context.newCDPSession(page);
    await network.send('Network.enable');
    network.on('Network.requestWillBeSent', ({ request }) => {
      if (request.url.startsWith(store.endpoint)) asked.push(request.method);
    });
    await page.goto(origin);
    await work({ ...store, page, origin, asked, [Symbol.asyncDispose]: async () => undefined });
  });
}

function urlFor({ store, endpoint }: TestStore, method: 'GET' | 'PUT'): string {
  const headers = method === 'PUT' ? { headers: HEADERS } : {};
  return store.presign(method, { bucket: Bucket, key }, { as: ANA.accessKey, expires: 60, endpoint, ...headers });
}

/** What the page sees of an upload: status and ETag, or the error of the browser. */
function upload({ page }: Visit, url: string): Promise<{ status: number; eTag: string | null } | { refused: string }> {
  return page.evaluate(
    async ([address, headers]) => {
      const file = new File([new Uint8Array(100_000).map((_, n) => n % 251)], 'a b.bin');
      try {
        const answer = await fetch(address, { method: 'PUT', body: file, headers });
        return { status: answer.status, eTag: answer.headers.get('etag') };
      } catch (error) {
        return { refused: String(error) };
      }
    },
    [url, HEADERS] as const,
  );
}

/** What the page downloads: whether it equals the upload, and a header. */
function download(
  { page }: Visit,
  url: string,
): Promise<{ whole: boolean; camera: string | null } | { refused: string }> {
  return page.evaluate(async (address) => {
    try {
      const answer = await fetch(address);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const whole = bytes.length === 100_000 && bytes.every((byte, n) => byte === n % 251);
      return { whole, camera: answer.headers.get('x-amz-meta-camera') };
    } catch (error) {
      return { refused: String(error) };
    }
  }, url);
}

async function allow(visit: Visit, rule: { origin: string; methods: string[]; exposed?: string[] }): Promise<void> {
  const { origin, methods, exposed = [] } = rule;
  const CORSRules = [
    { AllowedOrigins: [origin], AllowedMethods: methods, AllowedHeaders: ['*'], ExposeHeaders: exposed },
  ];
  await visit.client().send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules } }));
}

browserTest(
  'browser: without a CORS configuration a page uploads a file and reads it back, as on MinIO',
  async (visit) => {
    const uploaded = await upload(visit, urlFor(visit, 'PUT'));
    const { eTag } = visit.store.statObject({ bucket: Bucket, key }) ?? {};
    assert.deepEqual(uploaded, { status: 200, eTag: `"${eTag}"` });
    await eventually(() => assert.deepEqual(visit.asked.toSorted(), ['OPTIONS', 'PUT'], 'the browser asks first'));
    const downloaded = await download(visit, urlFor(visit, 'GET'));
    assert.ok('whole' in downloaded && downloaded.whole);
    assert.deepEqual(visit.reported, []);
  },
);

browserTest('browser: an allowed origin may upload and read, and sees the exposed headers', async (visit) => {
  await allow(visit, { origin: visit.origin, methods: ['GET', 'PUT'], exposed: ['x-amz-meta-camera'] });
  assert.deepEqual(await upload(visit, urlFor(visit, 'PUT')), { status: 200, eTag: null });
  assert.deepEqual(await download(visit, urlFor(visit, 'GET')), { whole: true, camera: 'one' });
});

browserTest('browser: an origin that is not allowed is blocked, and nothing is written', async (visit) => {
  await allow(visit, { origin: 'https://dashboard.example', methods: ['GET', 'PUT'] });
  const refused = { refused: 'TypeError: Failed to fetch' };
  assert.deepEqual(await upload(visit, urlFor(visit, 'PUT')), refused);
  assert.equal(visit.store.statObject({ bucket: Bucket, key }), undefined);
  await visit.store.putObject({ bucket: Bucket, key }, Buffer.from('a secret'));
  assert.deepEqual(await download(visit, urlFor(visit, 'GET')), refused);
});

browserTest('browser: an origin that may only read cannot upload', async (visit) => {
  await allow(visit, { origin: visit.origin, methods: ['GET'] });
  assert.deepEqual(await upload(visit, urlFor(visit, 'PUT')), { refused: 'TypeError: Failed to fetch' });
  await visit.store.putObject({ bucket: Bucket, key }, Buffer.from('x'));
  assert.deepEqual(await download(visit, urlFor(visit, 'GET')), { whole: false, camera: null });
});

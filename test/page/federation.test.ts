import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { NO_BROWSER, startBrowser } from '../support/browser.ts';
import { copying, delegating } from '../support/delegation.ts';
import { type Clusters, member, startClusters } from '../support/federation.ts';

/** The page of the origin of a federation, in a real browser: a job that runs on another cluster, and a cluster that fails. */

let browser: Browser | undefined;
let them: Clusters;

before(async () => {
  browser = await startBrowser();
  if (!browser) return;
  them = await startClusters({
    registered: true,
    settings: {
      OSCAR_PEER_NETWORKS: '127.0.0.0/8',
      OIDC_CLIENT_ID: 'oscar',
      OSCAR_LOCAL_CPU: '2',
      OSCAR_RECONCILE_INTERVAL: '1',
    },
  });
  await delegating(them, 'wide', [member(them.a, 'wide'), member(them.b, 'wide')], { script: copying('.copy') });
});

after(async () => {
  await browser?.close();
  await them?.[Symbol.asyncDispose]();
});

async function openAsAdmin(t: TestContext, path = ''): Promise<Page | undefined> {
  if (!browser) {
    t.skip(`NOT TESTED: ${NO_BROWSER}`);
    return undefined;
  }
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(`${them.origin.manager.url}/ui/${path}`);
  await page.getByText('As administrator').click();
  await page.getByLabel('Password').fill(them.origin.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByText('administrator', { exact: true }).waitFor();
  return page;
}

const row = (page: Page, cluster: string) =>
  page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: new RegExp(`^${cluster}\\b(?!-)`) }) });

test('page: the overview shows the capacity and the round trip of the other clusters', async (t) => {
  const page = await openAsAdmin(t);
  if (!page) return;
  for (const id of ['oscar-cluster-a', 'oscar-cluster-b']) {
    await row(page, id).getByRole('cell', { name: '2 of 2 free' }).waitFor();
    await row(page, id).getByRole('cell', { name: / ms$/ }).waitFor();
  }
});

test('page: a dropped file becomes a job on another cluster, whose result can be opened', async (t) => {
  const page = await openAsAdmin(t, 'data/wide?prefix=in%2F');
  if (!page) return;
  await page.getByText('An upload here starts wide.').waitFor();
  const file = { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('travelled') };
  await page.locator('input[type=file]').setInputFiles(file);
  await page.getByText('uploaded').waitFor();
  await page.getByRole('navigation').getByRole('link', { name: 'Jobs', exact: true }).click();
  await page.getByRole('cell', { name: 'succeeded' }).waitFor({ timeout: 120_000 });
  assert.match((await page.locator('tbody').textContent()) ?? '', /oscar-cluster-[ab]/);
  await page.getByRole('navigation').getByRole('link', { name: 'Data', exact: true }).click();
  await page.getByRole('link', { name: 'wide' }).click();
  await page.getByRole('link', { name: 'out/' }).click();
  await page.getByRole('button', { name: 'a.txt.copy' }).click();
  await page.getByRole('dialog').getByText('No preview for this kind of file.').waitFor();
});

test('page: a member that does not answer is shown with the reason', async (t) => {
  const page = await openAsAdmin(t);
  if (!page) return;
  await row(page, 'oscar-cluster-b').getByText('ready').waitFor();
  await them.b.wire.cut();
  await row(page, 'oscar-cluster-b').getByText('unreachable').waitFor({ timeout: 120_000 });
  await row(page, 'oscar-cluster-b').locator('.trouble').waitFor({ timeout: 120_000 });
});

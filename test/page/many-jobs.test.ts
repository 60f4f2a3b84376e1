import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { openLocalCluster } from '../../src/adapters/sqlite/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { sampleJob, sampleProgress } from '../../src/ports/conformance/sample-job.ts';
import { NO_BROWSER, startBrowser } from '../support/browser.ts';
import { ADMIN, PASSWORD, startTestManager, temporaryDirectory } from '../support/manager.ts';

const JOBS = 50_000;

/** Written at once, so that they share the trips to the disk. */
const TOGETHER = 500;

/** Fills the data directory of a stopped manager with ended jobs of a service. */
async function fill(directory: string, name: string): Promise<void> {
  const cluster = openLocalCluster({ directory });
  try {
    const found = await cluster.services.get(name);
    assert.ok(found);
    const { uid: serviceUid, owner } = found.service;
    const begun = Date.now() - JOBS;
    let next = 0;
    const worker = async () => {
      while (next < JOBS) {
        const number = next++;
        const at = begun + number;
        const known = { service: name, serviceUid, owner, id: `job-${number}`, acceptedAt: at };
        // Jobs that ended long ago would be deleted.
        const ended = { state: 'succeeded', at, reason: 'Succeeded', message: 'done', place: 'oscar-cluster' } as const;
        const progress = sampleProgress('succeeded', { message: `number ${number}`, timeline: [ended] });
        await cluster.jobs.accept(sampleJob('', known), progress, Buffer.from('{}'));
      }
    };
    await Promise.all(Array.from({ length: TOGETHER }, worker));
  } finally {
    await cluster.close();
  }
}

const scroll = (page: Page, to: 'top' | 'end') =>
  page.locator('.table-box').press(to === 'end' ? 'Control+End' : 'Control+Home');

test('page: a table of 50,000 jobs is scrolled to its end, and draws only what is in sight', async (t) => {
  const browser = await startBrowser();
  if (!browser) return t.skip(`NOT TESTED: ${NO_BROWSER}`);
  t.after(() => browser.close());
  const directory = temporaryDirectory();
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const first = await startTestManager({}, directory);
  const body = { name: 'busy', image: 'busybox', script: 'true' };
  assert.equal((await first.call('POST', '/system/services', { as: ADMIN, body })).status, 201);
  await first.stop();
  await fill(directory, 'busy');
  const manager = await startTestManager({}, directory);
  t.after(() => manager.stop());

  const page = await browser.newPage();
  await page.goto(`${manager.url}/ui/jobs`);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByText(`number ${JOBS - 1}`, { exact: true }).waitFor();
  const shown = async () => Number.parseInt((await page.getByText(/^\d+ jobs/).textContent()) ?? '', 10);
  for (let count = await shown(); count < JOBS; count = await shown()) {
    await scroll(page, 'end');
    await eventually(async () => assert.ok((await shown()) > count));
  }
  await scroll(page, 'end');
  await page.getByText('number 0', { exact: true }).waitFor();
  assert.equal(await page.getByText(/^\d+ jobs/).textContent(), `${JOBS} jobs`);
  const rows = await page.locator('.table-box tbody tr').count();
  assert.ok(rows < 100, `${rows} rows are drawn`);
  await scroll(page, 'top');
  await page.getByText(`number ${JOBS - 1}`, { exact: true }).waitFor();
  await page.getByLabel('State').selectOption('failed');
  await page.getByText('No job matches.').waitFor();
  return undefined;
});

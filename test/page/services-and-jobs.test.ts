import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import axeCore from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { type DemoIssuer, startDemoIssuer } from '../../src/cli/up/issuer/demo-issuer.ts';
import { GROUP } from '../../src/cli/up/issuer/people.ts';
import { freePort } from '../../src/cli/up/plan.ts';
import { NO_BROWSER, startBrowser } from '../support/browser.ts';
import { startTestManager, type TestManager, temporaryDirectory } from '../support/manager.ts';
import { startWire, type Wire } from '../support/wire.ts';

/**
 * People create services by form and as text, federate them, and follow their jobs, in a real browser on two real clusters.
 * Without chromium the tests are skipped with a message.
 */

const IDS = ['here', 'there'] as const;

let browser: Browser | undefined;
let issuer: DemoIssuer;
let wires: Wire[];
const managers: TestManager[] = [];
const directory = temporaryDirectory();

before(async () => {
  browser = await startBrowser();
  issuer = await startDemoIssuer(
    await freePort(21_000 + (process.pid % 20_000), new Set()),
    join(directory, 'issuer.json'),
  );
  wires = await Promise.all(IDS.map((_, index) => startWire(() => managers[index]?.url ?? '')));
  const clusters = Object.fromEntries(IDS.map((id, index) => [id, { endpoint: wires[index]?.url }]));
  for (const [index, id] of IDS.entries()) {
    const manager = await startTestManager({
      OIDC_ENABLE: 'true',
      OIDC_ISSUERS: issuer.url,
      OIDC_GROUPS: GROUP,
      OSCAR_PAGE_CLIENT_ID: 'oscar',
      OSCAR_PAGE_LOGIN_HINTS: 'alice,bob',
      OSCAR_CLUSTER_ID: id,
      OSCAR_ENDPOINT: wires[index]?.url ?? '',
      OSCAR_CLUSTERS: JSON.stringify(clusters),
    });
    managers.push(manager);
  }
});

after(async () => {
  await browser?.close();
  for (const manager of managers) await manager[Symbol.asyncDispose]();
  for (const wire of wires) await wire[Symbol.asyncDispose]();
  await issuer.stop();
  rmSync(directory, { recursive: true, force: true });
});

const home = () => `${managers[0]?.url}/ui/`;

/** Runs a test as Alice in a new browser profile. Fails if the page reports an error. */
function pageTest(name: string, work: (page: Page) => Promise<void>): void {
  test(name, async (t: TestContext) => {
    if (!browser) return t.skip(`NOT TESTED: ${NO_BROWSER}`);
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    t.after(() => context.close());
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('pageerror', (error) => problems.push(error.message));
    await page.goto(home());
    await signIn(page);
    await work(page);
    assert.deepEqual(problems, []);
  });
}

async function signIn(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Sign in as alice' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

/** A reload forgets the tokens. */
async function goTo(page: Page, path: string): Promise<void> {
  await page.goto(`${home()}${path}`);
  await signIn(page);
}

interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

async function tokensOfAlice(): Promise<Tokens> {
  const form = { grant_type: 'password', client_id: 'oscar', username: 'alice', password: 'alice' };
  const body = new URLSearchParams({ ...form, scope: 'openid profile offline_access' });
  const response = await fetch(`${issuer.url}/token`, { method: 'POST', body });
  return (await response.json()) as Tokens;
}

async function callAsAlice(method: string, path: string, body?: unknown) {
  const { access_token } = await tokensOfAlice();
  const answer = await managers[0]?.call(method, path, { as: `Bearer ${access_token}`, body });
  assert.ok(answer && answer.status < 300, answer?.text);
  return answer;
}

const define = (name: string, script: string) => ({
  name,
  image: 'busybox',
  cpu: '0.1',
  memory: '64Mi',
  script: `#!/bin/sh\n${script}\n`,
  input: [{ storage_provider: 'minio.default', path: `${name}/in` }],
  output: [{ storage_provider: 'minio.default', path: `${name}/out` }],
});

describe('page: services', () => {
  pageTest('page: a service is created by form, after a dry run that changes nothing', async (page) => {
    await goTo(page, 'services?new=true');
    await page.getByLabel('Name', { exact: true }).fill('formed');
    await page.getByLabel('Memory', { exact: true }).fill('much');
    await page.getByRole('button', { name: 'Dry run' }).click();
    await page.getByRole('alert').getByText('memory').waitFor();
    await page.getByLabel('Memory', { exact: true }).fill('64Mi');
    await page.getByLabel('Image', { exact: true }).fill('');
    await page.getByLabel('Image', { exact: true }).fill('alpine');
    for (const path of await page.getByLabel('Bucket and folder').all()) await path.fill('formed/x');
    await page.getByLabel('Bucket and folder').last().fill('formed/y');
    await page.getByRole('button', { name: 'Dry run' }).click();
    await page.getByRole('heading', { name: 'Would create formed' }).waitFor();
    await page.getByText('creates the bucket formed').waitFor();
    assert.ok(!(await callAsAlice('GET', '/system/services')).text.includes('formed'));
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('heading', { name: 'formed', exact: true }).waitFor();
    assert.match((await callAsAlice('GET', '/system/services/formed')).text, /"image":"alpine"/);
  });

  pageTest('page: a service is created as text, with completion and errors at the line', async (page) => {
    await goTo(page, 'services?new=true&mode=fdl');
    const editor = page.getByRole('textbox', { name: 'Definition' });
    await editor.fill('name: typed\nimage: busybox\nvisibility: open\n');
    await page.getByText('Line 3: visibility: must be one of private, restricted, public').waitFor();
    await page.getByText('"script" is missing').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Create', exact: true }).isDisabled());
    await editor.fill('name: typed\nimage: busybox\nscript: echo typed\n');
    await editor.press('Control+End');
    await editor.pressSequentially('visib');
    // The editor ignores Enter in the first moments of a list, so that nobody accepts what just appeared.
    await page.getByRole('option', { name: /visibility/ }).click();
    await page.keyboard.type('pub');
    await page.getByRole('option', { name: 'public' }).click();
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('heading', { name: 'typed', exact: true }).waitFor();
    assert.match((await callAsAlice('GET', '/system/services/typed')).text, /"visibility":"public"/);
  });

  pageTest('page: an edit shows its changes as text before it is saved', async (page) => {
    await goTo(page, 'services/typed?edit=true');
    await page.getByText('Nothing has changed.').waitFor();
    await page.getByLabel('Memory', { exact: true }).fill('333Mi');
    await page.getByText('+ memory: 333Mi').waitFor();
    await page.getByRole('button', { name: 'Dry run' }).click();
    await page.getByText('changes memory').waitFor();
    await page.getByRole('button', { name: 'FDL' }).click();
    await page.getByRole('button', { name: 'Show as JSON' }).click();
    await page.getByText('+   "memory": "333Mi"').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Delete' }).waitFor();
    assert.match((await callAsAlice('GET', '/system/services/typed')).text, /"memory":"333Mi"/);
  });

  pageTest('page: a replica is added, gets another priority and is removed; the policy is changed', async (page) => {
    const { refresh_token } = await tokensOfAlice();
    const body = { ...define('spread', 'echo hi'), environment: { secrets: { refresh_token } } };
    await callAsAlice('POST', '/system/services', { ...body, federation: { topology: 'star', members: [] } });
    await goTo(page, 'services/spread');
    await page.getByText('This service runs on this cluster only.').waitFor();
    await page.getByLabel('Cluster id').fill('there');
    await page.getByRole('button', { name: 'Add a replica' }).click();
    const row = page.getByRole('row', { name: /there\/spread/ });
    await row.getByText('ready').waitFor();
    await row.getByRole('spinbutton').fill('7');
    await row.getByRole('button', { name: 'Apply' }).click();
    await row.getByRole('button', { name: 'Apply' }).waitFor({ state: 'detached' });
    assert.match((await callAsAlice('GET', '/system/federation/spread')).text, /"priority":7/);
    await page.getByLabel('Policy').selectOption('random');
    await page.getByLabel('Weight there').fill('3');
    await page
      .locator('form', { has: page.getByLabel('Policy') })
      .getByRole('button', { name: 'Apply' })
      .click();
    await page.getByText('"random"').waitFor();
    await row.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('This service runs on this cluster only.').waitFor();
  });

  pageTest('page: filters of the list are in the address', async (page) => {
    await goTo(page, 'services');
    await page.getByRole('link', { name: 'formed', exact: true }).waitFor();
    await page.getByLabel('Visibility').selectOption('public');
    await page.getByRole('link', { name: 'formed', exact: true }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'typed', exact: true }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('visibility'), 'public');
    await goTo(page, 'services?federation=federated');
    await page.getByText('No service matches.').waitFor();
  });
});

describe('page: jobs', () => {
  pageTest('page: a log follows and is searched, and a job is cancelled', async (page) => {
    await callAsAlice('POST', '/system/services', define('chatty', 'echo one; echo two; sleep 600'));
    const job = await callAsAlice('POST', '/job/chatty', 'hello');
    await goTo(page, `jobs/chatty/${job.headers.get('x-oscar-job-id')}`);
    await page.locator('pre.log').getByText('two').waitFor();
    await page.getByText('following').waitFor();
    await page.getByLabel('Search the log').fill('ONE');
    await page.getByText('1 lines match').waitFor();
    assert.ok(!((await page.locator('pre.log').textContent()) ?? '').includes('two'));
    await page.getByText('The job was not offered to other clusters.').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('cancelled').first().waitFor();
  });

  pageTest('page: a job of an uploaded file is run again, and the chart of the last hour has both', async (page) => {
    await callAsAlice('POST', '/system/services', define('copied', 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"'));
    const file = { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('x') };
    await goTo(page, 'data/copied?prefix=in%2F');
    await page.locator('input[type=file]').setInputFiles(file);
    await page.getByText('uploaded').waitFor();
    await goTo(page, 'jobs?service=copied&state=succeeded');
    await page.getByRole('link', { name: /^copied .* a\.txt$/ }).click();
    await page.getByRole('link', { name: 'Open copied/out' }).waitFor();
    await page.getByRole('button', { name: 'Run again' }).click();
    await page.getByRole('status').getByRole('link').click();
    await page.getByText('succeeded').first().waitFor();
    await goTo(page, 'jobs?view=chart&service=copied');
    await page.getByRole('img', { name: '2 jobs on here during the last hour' }).waitFor();
  });
});

describe('page: accessibility of services and jobs', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    pageTest(`page: axe finds nothing serious in forms, editor, details and chart (${colorScheme})`, async (page) => {
      await page.emulateMedia({ colorScheme });
      const serious: string[] = [];
      for (const [path, shown] of [
        ['services?new=true', 'All other keys are in the FDL view.'],
        ['services?new=true&mode=fdl', 'Ctrl-Space completes'],
        ['services/copied', 'Usage of the last 30 days'],
        ['jobs?view=chart', 'The last hour by cluster'],
        ['jobs', 'jobs'],
      ] as const) {
        await goTo(page, path);
        await page.getByText(shown).first().waitFor();
        if (path.includes('fdl')) await page.getByRole('textbox', { name: 'Definition' }).waitFor();
        await page.evaluate(axeCore.source);
        const found = await page.evaluate(async () => {
          const { axe } = globalThis as unknown as {
            axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> };
          };
          return (await axe.run()).violations;
        });
        for (const { id, impact, nodes } of found) {
          if (impact === 'serious' || impact === 'critical') serious.push(`${path}: ${id} ${nodes[0]?.html ?? ''}`);
        }
        await page.setViewportSize({ width: 360, height: 740 });
        if (!(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')))
          serious.push(`${path}: wider than a phone`);
        await page.setViewportSize({ width: 1280, height: 900 });
      }
      assert.deepEqual(serious, []);
    });
  }
});

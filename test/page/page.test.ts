import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import axeCore from 'axe-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { type DemoIssuer, startDemoIssuer } from '../../src/cli/up/issuer/demo-issuer.ts';
import { GROUP } from '../../src/cli/up/issuer/people.ts';
import { freePort } from '../../src/cli/up/plan.ts';
import { NO_BROWSER, startBrowser } from '../support/browser.ts';
import { PASSWORD, startTestManager, type TestManager, temporaryDirectory } from '../support/manager.ts';

/**
 * People use the page of a real manager in a real browser: they sign in at a real issuer, create a service, upload a file and
 * read the result. Without chromium the tests are skipped with a message.
 */

let browser: Browser | undefined;
let issuer: DemoIssuer;
let manager: TestManager;
const directory = temporaryDirectory();

before(async () => {
  browser = await startBrowser();
  issuer = await startDemoIssuer(
    await freePort(20_000 + (process.pid % 20_000), new Set()),
    join(directory, 'issuer.json'),
  );
  manager = await startTestManager({
    OIDC_ENABLE: 'true',
    OIDC_ISSUERS: issuer.url,
    OIDC_GROUPS: GROUP,
    OSCAR_PAGE_CLIENT_ID: 'oscar',
    OSCAR_PAGE_LOGIN_HINTS: 'alice,bob',
  });
});

after(async () => {
  await browser?.close();
  await manager[Symbol.asyncDispose]();
  await issuer.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Runs a test with a new browser profile. Fails if the page reports an error. */
function pageTest(name: string, work: (page: Page, context: BrowserContext) => Promise<void>): void {
  test(name, async (t: TestContext) => {
    if (!browser) return t.skip(`NOT TESTED: ${NO_BROWSER}`);
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    t.after(() => context.close());
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('pageerror', (error) => problems.push(error.message));
    await page.goto(`${manager.url}/ui/`);
    await work(page, context);
    assert.deepEqual(problems, []);
  });
}

async function signIn(page: Page, user: string): Promise<void> {
  await page.getByRole('button', { name: `Sign in as ${user}` }).click();
  await page.getByRole('heading', { name: 'Federation' }).waitFor();
}

/** Fails if the button comes back once everything that the sign-in page loads is there. */
async function goneFor(page: Page, button: string): Promise<void> {
  await page.waitForLoadState('networkidle');
  assert.equal(await page.getByRole('button', { name: button }).count(), 0);
}

const goTo = (page: Page, view: string) =>
  page.getByRole('navigation').getByRole('link', { name: view, exact: true }).click();

const SERVICE = {
  name: 'greeting',
  image: 'busybox',
  cpu: '0.1',
  memory: '64Mi',
  script: 'echo "hello $(cat "$INPUT_FILE_PATH")" | tee "$TMP_OUTPUT_DIR/answer.txt"',
  input: [{ storage_provider: 'minio.default', path: 'greeting/in' }],
  output: [{ storage_provider: 'minio.default', path: 'greeting/out' }],
};

describe('page: sign-in', () => {
  pageTest('page: a user signs in at the issuer, and no token is in the storage of the browser', async (page) => {
    await signIn(page, 'alice');
    await page.getByText('Alice', { exact: true }).waitFor();
    const stored = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])');
    assert.equal(stored, '[{},{},""]');
    assert.equal(new URL(page.url()).search, '', 'the code must not stay in the address');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in as alice' }).waitFor();
    await goneFor(page, 'Sign out');
  });

  pageTest('page: the administrator signs in with the password, and a wrong one is refused', async (page) => {
    await page.getByText('As administrator').click();
    await page.getByLabel('Password').fill('wrong');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByText('Wrong user name or password.').waitFor();
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByText('administrator', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('As administrator').waitFor();
  });

  pageTest('page: a user signs in on another device', async (page, context) => {
    await page.getByRole('button', { name: 'Sign in on another device' }).click();
    const link = page.getByRole('link', { name: /\/device/ });
    const other = await context.newPage();
    await other.goto((await link.getAttribute('href')) ?? '');
    await other.getByRole('button', { name: /alice/i }).click();
    await other.getByText('You are logged in as Alice').waitFor();
    await page.getByRole('heading', { name: 'Federation' }).waitFor();
    await page.getByText('Alice', { exact: true }).waitFor();
    assert.equal(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])'), '[{},{}]');
  });

  pageTest('page: a code that this page did not ask for is not redeemed', async (page) => {
    await page.goto(`${manager.url}/ui/?code=stolen&state=of-another-page`);
    await page.getByText('this sign-in was not started here').waitFor();
  });
});

describe('page: work', () => {
  pageTest('page: a user creates a service, uploads a file and reads the log and the result', async (page) => {
    await signIn(page, 'alice');
    await goTo(page, 'Services');
    await page.getByRole('link', { name: 'Create a service' }).click();
    await page.getByRole('button', { name: 'FDL' }).click();
    await page.getByRole('textbox').fill('{ not json');
    assert.ok(await page.getByRole('button', { name: 'Create', exact: true }).isDisabled());
    await page.getByRole('textbox').fill(JSON.stringify({ ...SERVICE, memory: 'much' }));
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('alert').getByText('memory').waitFor();
    await page.getByRole('textbox').fill(JSON.stringify(SERVICE));
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await page.getByRole('heading', { name: 'greeting', exact: true }).waitFor();

    await page.goto(`${manager.url}/ui/data/greeting?prefix=in%2F`);
    await signInAgain(page);
    await page.getByText('An upload here starts greeting.').waitFor();
    const file = { name: 'who.txt', mimeType: 'text/plain', buffer: Buffer.from('world') };
    await page.locator('input[type=file]').setInputFiles(file);
    await page.getByText('uploaded').waitFor();

    await goTo(page, 'Jobs');
    await page.getByRole('cell', { name: 'succeeded' }).waitFor();
    await page.getByRole('link', { name: /^greeting .* who\.txt$/ }).click();
    await page.locator('pre.log').getByText('hello world').waitFor();
    await page.getByRole('heading', { name: 'Timeline' }).waitFor();

    await goTo(page, 'Data');
    await page.getByRole('link', { name: 'greeting' }).click();
    await page.getByRole('link', { name: 'out/' }).click();
    await page.getByRole('button', { name: 'answer.txt' }).click();
    await page.getByRole('dialog').getByText('hello world').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();

    await goTo(page, 'Run');
    await page.getByLabel('Input').fill('browser');
    await page.getByRole('button', { name: 'Run and wait' }).click();
    await page.locator('pre.log').getByText('hello browser').waitFor();
  });

  pageTest(
    'page: an interrupted upload of a large file goes on after a reload, without the parts that are stored',
    async (page) => {
      await signIn(page, 'alice');
      await goTo(page, 'Data');
      await page.getByLabel('New bucket').fill('large-files');
      await page.getByRole('button', { name: 'Create', exact: true }).click();
      await page.getByRole('link', { name: 'large-files' }).click();
      const path = join(directory, 'large.bin');
      writeFileSync(path, Buffer.alloc(20 * 1024 * 1024, 'x'));
      const parts: string[] = [];
      const isPart = (url: URL) => url.searchParams.has('partNumber');
      await page.route(isPart, (route) => {
        const number = new URL(route.request().url()).searchParams.get('partNumber') ?? '';
        return number === '3' ? route.abort() : route.continue();
      });
      await page.locator('input[type=file]').setInputFiles(path);
      await page.getByText('the object store does not answer').waitFor();
      await page.unroute(isPart);
      await page.reload();
      await signInAgain(page);
      page.on('request', (request) => {
        const number = new URL(request.url()).searchParams.get('partNumber');
        if (number !== null && request.method() === 'PUT') parts.push(number);
      });
      await page.locator('input[type=file]').setInputFiles(path);
      await page.getByText('uploaded').waitFor();
      assert.deepEqual(parts, ['3']);
      await page.getByRole('cell', { name: '20.0 MiB' }).waitFor();
    },
  );

  pageTest('page: files are shown by their kind, shared by a link, and deleted', async (page) => {
    await signIn(page, 'alice');
    await page.goto(`${manager.url}/ui/data/large-files`);
    await signInAgain(page);
    const table = { name: 'table.csv', mimeType: 'text/csv', buffer: Buffer.from('city,people\n"Lund, SE",94000\n') };
    const document = { name: 'paper.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF-1.4\n%%EOF\n') };
    await page.locator('input[type=file]').setInputFiles([table, document]);
    await page.getByText('uploaded').nth(1).waitFor();
    await page.getByRole('button', { name: 'paper.pdf' }).click();
    assert.match((await page.locator('dialog iframe').getAttribute('src')) ?? '', /^blob:/);
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();

    await page.getByRole('button', { name: 'table.csv' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('cell', { name: 'Lund, SE' }).waitFor();
    await dialog.getByText('Link for others').click();
    await dialog.getByLabel('Expires after').selectOption('1 day');
    await dialog.getByRole('button', { name: 'Create the link' }).click();
    const link = await dialog.getByRole('textbox', { name: 'Link for others' }).inputValue();
    assert.equal(new URL(link).searchParams.get('X-Amz-Expires'), '86400');
    assert.match(await (await fetch(link)).text(), /Lund/);
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog', { name: 'Delete table.csv?' }).getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'table.csv' }).waitFor({ state: 'detached' });

    await page.getByText('Visibility: private').click();
    await page.getByLabel('Visibility').selectOption('public');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Visibility: public').waitFor();
    await page.getByRole('button', { name: 'Delete the bucket' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete the bucket' }).click();
    await page.getByRole('link', { name: 'large-files' }).waitFor({ state: 'detached' });
  });

  pageTest('page: the administrator sees checks and audit records, a user does not', async (page) => {
    await page.getByText('As administrator').click();
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await goTo(page, 'Cluster');
    await page.getByRole('cell', { name: 'the manager can do its work' }).waitFor();
    await page.getByRole('cell', { name: 'bucket.create' }).first().waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    // The page comes back to the view that it had.
    await page.getByRole('button', { name: 'Sign in as alice' }).click();
    await page.getByRole('heading', { name: 'Nodes' }).waitFor();
    assert.equal(await page.getByRole('heading', { name: 'Audit' }).count(), 0);
  });

  pageTest('page: another user sees neither the service nor its jobs and buckets', async (page) => {
    await signIn(page, 'bob');
    for (const [view, nothing] of [
      ['Services', 'You have no services yet.'],
      ['Jobs', 'No job matches.'],
      ['Data', 'You have no buckets yet.'],
    ] as const) {
      await goTo(page, view);
      await page.getByText(nothing).waitFor();
    }
  });

  pageTest('page: a service is deleted after a question that names what goes with it', async (page) => {
    await signIn(page, 'alice');
    await goTo(page, 'Services');
    await page.getByRole('link', { name: 'greeting', exact: true }).click();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText('the bucket greeting').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Keep it' }).click();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('You have no services yet.').waitFor();
  });
});

/** A reload forgets the tokens. */
async function signInAgain(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Sign in as alice' }).click();
}

describe('page: accessibility', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    pageTest(`page: axe finds nothing serious on any view (${colorScheme})`, async (page) => {
      await page.emulateMedia({ colorScheme });
      const serious: string[] = [];
      const check = async (view: string) => {
        // Evaluated by the debugger, which the policy of the page does not restrict.
        await page.evaluate(axeCore.source);
        const found = await page.evaluate(async () => {
          const { axe } = globalThis as unknown as {
            axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> };
          };
          return (await axe.run()).violations;
        });
        for (const { id, impact, nodes } of found) {
          if (impact === 'serious' || impact === 'critical') serious.push(`${view}: ${id} ${nodes[0]?.html ?? ''}`);
        }
      };
      await page.getByRole('button', { name: 'Sign in as alice' }).waitFor();
      await check('sign-in');
      await signIn(page, 'alice');
      for (const view of ['Overview', 'Services', 'Jobs', 'Data', 'Run', 'Cluster']) {
        await goTo(page, view);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await check(view);
      }
      assert.deepEqual(serious, []);
    });
  }

  pageTest('page: nothing is wider than the screen of a phone', async (page) => {
    await page.setViewportSize({ width: 360, height: 740 });
    await signIn(page, 'alice');
    for (const view of ['Overview', 'Services', 'Jobs', 'Data', 'Run', 'Cluster']) {
      await goTo(page, view);
      await page.getByRole('heading', { level: 1 }).waitFor();
      assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), view);
    }
  });
});

describe('page: headers', () => {
  test('page: documents allow no foreign script, style, frame or opener', async () => {
    const { headers } = await manager.call('GET', '/ui/jobs');
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.equal(headers.get('cross-origin-opener-policy'), 'same-origin');
  });

  test('page: files with a hash in their name are compressed and may be cached for ever', async () => {
    const page = await manager.call('GET', '/ui/');
    const script = /src="([^"]+\.js)"/.exec(page.text)?.[1] ?? '';
    const answer = await fetch(`${manager.url}${script}`, { headers: { 'accept-encoding': 'br' } });
    assert.equal(answer.headers.get('content-encoding'), 'br');
    assert.equal(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable');
  });
});

import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { parse } from 'yaml';

/**
 * Takes the screenshots of the documentation (`docs/images/page-*.png`) of a running federation with the demo:
 *
 *   npx oscar up --demo
 *   npm run docs:screenshots
 *
 * `OSCAR_CONFIG_FILE` names another configuration than that of `.oscar`.
 */

const images = fileURLToPath(new URL('../docs/images/', import.meta.url));
const configFile = process.env['OSCAR_CONFIG_FILE'] ?? '.oscar/config.yaml';
const config = parse(readFileSync(configFile, 'utf8')) as {
  oscar: Record<string, { endpoint: string; auth_password: string }>;
};
const [cluster] = Object.values(config.oscar);
if (!cluster) throw new Error(`${configFile} has no cluster`);
const base = `${cluster.endpoint}/ui`;

/** All pictures together, so that a clone of the project stays small. */
const MOST_BYTES = 1_500_000;

const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args });
mkdirSync(images, { recursive: true });
const written: string[] = [];

async function shoot(page: Page, name: string): Promise<void> {
  const path = join(images, `page-${name}.png`);
  await page.screenshot({ path });
  written.push(path);
}

async function openPage(
  from: Browser,
  options: { readonly dark?: boolean; readonly phone?: boolean } = {},
): Promise<Page> {
  const context = await from.newContext({
    viewport: options.phone ? { width: 390, height: 800 } : { width: 1200, height: 820 },
    colorScheme: options.dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  await page.goto(`${base}/`);
  return page;
}

const view = (page: Page, name: string) =>
  page.getByRole('navigation').getByRole('link', { name, exact: true }).click();
const settled = (page: Page) => page.waitForTimeout(1_500);

try {
  const page = await openPage(browser);
  await page.getByRole('button', { name: 'Sign in as alice' }).waitFor();
  await settled(page);
  await shoot(page, 'sign-in');
  await page.getByRole('button', { name: 'Sign in as alice' }).click();
  await page.getByRole('heading', { level: 1 }).waitFor();
  await settled(page);
  // The picture is best while jobs run; without any it is taken all the same.
  await page
    .locator('.job-dot')
    .nth(2)
    .waitFor({ timeout: 15_000 })
    .catch(() => undefined);
  await shoot(page, 'overview');
  for (const name of ['Services', 'Jobs', 'Data', 'Run', 'Cluster']) {
    await view(page, name);
    await settled(page);
    await shoot(page, name.toLowerCase());
  }
  await view(page, 'Jobs');
  await page.locator('tbody a').first().click();
  await settled(page);
  await shoot(page, 'job');
  await view(page, 'Data');
  await page.locator('tbody a').first().click();
  await settled(page);
  await shoot(page, 'folder');

  const dark = await openPage(browser, { dark: true });
  await dark.getByRole('button', { name: 'Sign in as alice' }).click();
  await settled(dark);
  await dark.waitForTimeout(5_000);
  await shoot(dark, 'overview-dark');

  const phone = await openPage(browser, { phone: true });
  await phone.getByRole('button', { name: 'Sign in as alice' }).click();
  await settled(phone);
  await shoot(phone, 'phone');

  const admin = await openPage(browser);
  await admin.getByText('As administrator').click();
  await admin.getByLabel('Password').fill(cluster.auth_password);
  await admin.getByRole('button', { name: 'Sign in', exact: true }).click();
  await view(admin, 'Cluster');
  await admin.getByRole('heading', { name: 'Checks' }).scrollIntoViewIfNeeded();
  await settled(admin);
  await shoot(admin, 'checks');
} finally {
  await browser.close();
}

const bytes = written.reduce((sum, path) => sum + statSync(path).size, 0);
if (bytes > MOST_BYTES) {
  for (const path of written) rmSync(path);
  throw new Error(`the pictures have ${bytes} bytes, more than ${MOST_BYTES}: show less`);
}
process.stdout.write(`${written.length} pictures, ${bytes} bytes\n`);

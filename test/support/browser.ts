import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

/** Why tests with a browser are skipped on a machine without one. */
export const NO_BROWSER = 'there is no chromium, chromium-browser or google-chrome on the PATH';

/** Starts the browser of this machine; undefined if there is none. */
export async function startBrowser(): Promise<Browser | undefined> {
  const executablePath = installedBrowser();
  // Chromium has no sandbox for root; the tests load only their own pages.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return executablePath === undefined ? undefined : chromium.launch({ executablePath, args });
}

function installedBrowser(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const candidates = ['chromium', 'chromium-browser', 'google-chrome'].flatMap((name) =>
    folders.map((folder) => join(folder, name)),
  );
  return candidates.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

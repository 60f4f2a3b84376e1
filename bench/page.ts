import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Browser, CDPSession } from 'playwright-core';
import { NO_BROWSER, startBrowser } from '../test/support/browser.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { NO_FILES, scriptService } from './support/job-manager.ts';
import { type ManagerProcess, startManagerProcess } from './support/manager-process.ts';
import { median } from './support/statistics.ts';
import { startUser } from './support/user.ts';

export const description = 'the page: its first load, a thousand events a second, and many open pages';

export const figures = {
  size: { what: 'first load of the page, compressed', unit: 'kB', reach: ['≤', 250] },
  interactive: { what: '… until its form takes input', unit: 'ms', reach: ['<', 1_000] },
  frame: { what: 'longest frame at 1,000 events per second', unit: 'ms', reach: ['≤', 100] },
  growth: { what: '… growth of its memory from the first to the second half', unit: 'MB', reach: ['≤', 5] },
  watchers: { what: 'CPU of the manager for 200 open pages at 100 events per second', unit: '%', reach: ['≤', 25] },
} satisfies Record<string, Figure>;

/** `OSCAR_BENCH_SECONDS=30 npm run bench page` is enough while working on the page. */
const SECONDS = Number(process.env['OSCAR_BENCH_SECONDS'] ?? 600);

const PASSWORD = 'correct horse';
const LOADS = 5;

export async function run(): Promise<Measured<typeof figures>> {
  const browser = await startBrowser();
  if (!browser) throw new Error(NO_BROWSER);
  try {
    await using manager = await startManagerProcess({ settings: { OSCAR_PASSWORD: PASSWORD } });
    const first = await firstLoad(browser, manager.url);
    const busy = await manyEvents(browser, manager.url);
    return { ...first, ...busy, watchers: await manyPages() };
  } finally {
    await browser.close();
  }
}

async function firstLoad(browser: Browser, url: string) {
  const sizes: number[] = [];
  const times: number[] = [];
  for (let load = 0; load < LOADS; load++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const begun = performance.now();
    await page.goto(`${url}/ui/`, { waitUntil: 'commit' });
    await page.getByLabel('Password').fill('x');
    times.push(performance.now() - begun);
    sizes.push(Number(await page.evaluate(TRANSFERRED)) / 1_000);
    await context.close();
  }
  return { size: median(sizes), interactive: median(times) };
}

const TRANSFERRED = `[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter(({ name }) => !name.endsWith('.json')).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`;

const RATE = 1_000;
const JOBS = 5_000;

/** The page of a real manager, whose events are replaced: no manager of this machine has a thousand a second for long. */
async function manyEvents(browser: Browser, url: string) {
  const stand = await startEventSource(url);
  try {
    const page = await browser.newPage();
    await page.goto(`${stand.url}/ui/`);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Jobs', exact: true }).click();
    await page
      .getByRole('cell', { name: /running|succeeded/ })
      .first()
      .waitFor();
    const debug = await page.context().newCDPSession(page);
    // The first seconds compile the code and fill the caches.
    await pause(5_000);
    await page.evaluate(WATCH_FRAMES);
    const samples: number[] = [];
    const end = performance.now() + SECONDS * 1_000;
    while (performance.now() < end) {
      await pause((SECONDS * 1_000) / 20);
      samples.push(await usedMegabytes(debug));
    }
    const frame = Number(await page.evaluate('globalThis.longestFrame'));
    const half = samples.length / 2;
    const growth = Math.max(0, median(samples.slice(half)) - median(samples.slice(0, half)));
    await page.close();
    return { frame, growth };
  } finally {
    await stand.stop();
  }
}

/** Collecting garbage is work of its own, which is not counted as a frame. */
const WATCH_FRAMES = `(() => {
  globalThis.longestFrame = 0;
  let last = performance.now();
  const step = (now) => {
    if (!globalThis.pausedFrames) globalThis.longestFrame = Math.max(globalThis.longestFrame, now - last);
    globalThis.pausedFrames = false;
    last = now;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})()`;

async function usedMegabytes(debug: CDPSession): Promise<number> {
  await debug.send('Runtime.evaluate', { expression: 'globalThis.pausedFrames = true' });
  await debug.send('HeapProfiler.collectGarbage');
  await debug.send('Runtime.evaluate', { expression: 'globalThis.pausedFrames = true' });
  const { usedSize } = await debug.send('Runtime.getHeapUsage');
  return usedSize / 1e6;
}

/** Passes requests on to the manager, and answers `/system/events` itself. */
async function startEventSource(manager: string) {
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/system/events')) sendEvents(response);
    else passOn(manager, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

function passOn(manager: string, request: IncomingMessage, response: ServerResponse): void {
  const { method, headers, url } = request;
  const there = httpRequest(`${manager}${url}`, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  there.on('error', () => response.destroy());
  request.pipe(there);
}

/** Batches of 50 ms, as a manager sends them. Jobs are accepted, run and end, and new ones follow. */
function sendEvents(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  let sent = 0;
  const timer = setInterval(() => {
    const batch = Array.from({ length: RATE / 20 }, () => `event: job\ndata: ${JSON.stringify(eventAt(sent++))}\n\n`);
    response.write(batch.join(''));
  }, 50);
  response.on('close', () => clearInterval(timer));
}

const STATES = [
  ['accepted', 'Pending'],
  ['queued', 'Pending'],
  ['running', 'Running'],
  ['succeeded', 'Succeeded'],
] as const;

function eventAt(number: number) {
  const step = Math.floor(number / JOBS);
  const [state, phase] = STATES[step % STATES.length] ?? STATES[0];
  const id = `bench-${Math.floor(step / STATES.length)}-${number % JOBS}`;
  const now = new Date().toISOString();
  const started = state === 'running' || state === 'succeeded' ? { started_at: now, place: 'oscar-cluster' } : {};
  const finished = state === 'succeeded' ? { finished_at: now, exit_code: 0 } : {};
  return {
    id,
    service: 'bench',
    state,
    phase,
    message: state,
    trigger: 'job',
    accepted_at: now,
    ...started,
    ...finished,
  };
}

const PAGES = 200;
const EVENTS_PER_SECOND = 100;
/** accepted, queued, running, succeeded. */
const EVENTS_PER_JOB = 4;
const WATCH_SECONDS = 20;

/** The CPU of a manager that runs jobs with 200 followers of its events, without that of the same jobs and no followers. */
async function manyPages(): Promise<number> {
  await using user = await startUser();
  await using manager = await startManagerProcess({
    settings: { ...user.settings, OSCAR_MAX_CONNECTIONS_PER_ADDRESS: '1000' },
  });
  const made = await post(
    manager,
    '/system/services',
    user.as,
    JSON.stringify(scriptService('busy', 'true', NO_FILES)),
  );
  if (made !== 201) throw new Error(`the service was not created: ${made}`);
  await cpuWhileBusy(manager, user.as);
  const alone = await cpuWhileBusy(manager, user.as);
  const stop = new AbortController();
  const pages = Array.from({ length: PAGES }, () => follow(manager, user.as, stop.signal));
  await Promise.all(pages.map(({ open }) => open));
  const watched = await cpuWhileBusy(manager, user.as);
  stop.abort();
  const bytes = await Promise.all(pages.map(({ received }) => received));
  if (bytes.some((count) => count === 0)) throw new Error('a page received no events');
  return Math.max(0, watched - alone) * 100;
}

/** CPU seconds per second. */
async function cpuWhileBusy(manager: ManagerProcess, as: string): Promise<number> {
  const [cpu, begun] = [manager.cpu(), performance.now()];
  const every = (1_000 * EVENTS_PER_JOB) / EVENTS_PER_SECOND;
  const answers: Promise<number>[] = [];
  for (let due = begun; due < begun + WATCH_SECONDS * 1_000; due += every) {
    await pause(Math.max(0, due - performance.now()));
    answers.push(post(manager, '/job/busy', as, 'x'));
  }
  const refused = (await Promise.all(answers)).filter((status) => status !== 201);
  if (refused.length > 0) throw new Error(`${refused.length} jobs were refused: ${refused[0]}`);
  return (manager.cpu() - cpu) / ((performance.now() - begun) / 1_000);
}

async function post({ url }: ManagerProcess, path: string, as: string, body: string): Promise<number> {
  const response = await fetch(`${url}${path}`, { method: 'POST', headers: { authorization: as }, body });
  await response.arrayBuffer();
  return response.status;
}

function follow({ url }: ManagerProcess, as: string, signal: AbortSignal) {
  const opened = fetch(`${url}/system/events`, { headers: { authorization: as }, signal });
  return {
    open: opened.then(({ status }) => {
      if (status !== 200) throw new Error(`/system/events answered ${status}`);
      return status;
    }),
    received: opened.then(async ({ body }) => {
      let bytes = 0;
      try {
        for await (const chunk of body ?? []) bytes += (chunk as Uint8Array).length;
      } catch {
        // The bench has closed the connection.
      }
      return bytes;
    }),
  };
}

import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, describe, type TestContext, test } from 'node:test';
import { makeImage } from '../../deploy/image/image.ts';
import { tar } from '../../deploy/image/tar.ts';
import { LaunchError } from '../../src/adapters/local-runner/launcher.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { launcherOn, orderOf, runToEnd } from './attempts.ts';
import { BUSYBOX } from './busybox.ts';
import { Daemon } from './daemon.ts';
import { testImages } from './programs.ts';
import { Registry } from './registry.ts';

/** Large enough that an engine reports progress during the pull. */
const LARGE = 8_000_000;

const NEVER = new AbortController().signal;

describe('images', { timeout: 120_000 }, () => {
  let daemon: Daemon;
  let registry: Registry;
  before(async () => {
    daemon = await Daemon.start();
    registry = await Registry.start();
  });
  after(async () => {
    await registry.stop();
    await daemon.stop();
  });

  test('a missing image is pulled, with progress', async (t) => {
    const image = await published();
    const gate = held(t);
    const order = orderOf(t, 'cat /mark | wc -c', { image });
    const messages: string[] = [];
    const launcher = launcherOn(t, daemon);
    const ready = launcher.prepare(order, (message) => messages.push(message), NEVER);
    await eventually(() =>
      assert.ok(
        messages.some((message) => /: [1-9]\d? %$/.test(message)),
        messages.join('\n'),
      ),
    );
    gate.open();
    await ready;
    assert.equal(messages[0], `pulling ${image}`);
    const percents = messages.slice(1).map((message) => Number(/: (\d+) %$/.exec(message)?.[1]));
    assert.deepEqual(
      percents,
      percents.toSorted((a, b) => a - b),
    );
    assert.equal(new Set(percents).size, percents.length);
    assert.equal(percents.at(-1), 100);
    assert.equal((await runToEnd(t, daemon, order)).exitCode, 0);
    assert.equal(order.text(), `${LARGE}\n`);
  });

  test('an existing image is not pulled', async (t) => {
    const image = await published();
    const launcher = launcherOn(t, daemon);
    await launcher.prepare(orderOf(t, '', { image }), () => {}, NEVER);
    const earlier = registry.fetched.length;
    const messages: string[] = [];
    for (const known of [image, BUSYBOX]) {
      await launcher.prepare(orderOf(t, '', { image: known }), (message) => messages.push(message), NEVER);
    }
    assert.deepEqual(messages, []);
    assert.equal(registry.fetched.length, earlier);
  });

  test('concurrent attempts share one pull', async (t) => {
    const image = await published();
    const gate = held(t);
    const launcher = launcherOn(t, daemon);
    const earlier = registry.fetched.length;
    const told = Array.from({ length: 10 }, () => [] as string[]);
    const all = told.map((messages) =>
      launcher.prepare(orderOf(t, '', { image }), (message) => messages.push(message), NEVER),
    );
    await eventually(() => assert.ok(told.every((messages) => messages.length > 1)));
    gate.open();
    await Promise.all(all);
    const fetched = registry.fetched.slice(earlier);
    assert.ok(fetched.length > 0);
    assert.equal(new Set(fetched).size, fetched.length);
  });

  test('a cancelled attempt leaves the pull to the others, and the last one cancels it', async (t) => {
    const image = await published();
    const gate = held(t);
    const launcher = launcherOn(t, daemon);
    const [first, second] = [new AbortController(), new AbortController()];
    const begun: string[] = [];
    const report = (message: string) => begun.push(message);
    const one = launcher.prepare(orderOf(t, '', { image }), report, first.signal);
    const two = launcher.prepare(orderOf(t, '', { image }), report, second.signal);
    await eventually(() => assert.ok(begun.some((message) => message.endsWith('%'))));
    first.abort(new Error('not wanted'));
    await assert.rejects(one, /not wanted/);
    second.abort(new Error('not wanted either'));
    await assert.rejects(two, /not wanted either/);
    gate.open();
    await launcher.prepare(orderOf(t, '', { image }), () => {}, NEVER);
  });

  const failures = [
    {
      name: 'an image that the registry does not have',
      image: (host: string) => `${host}-other`,
      says: /could not be pulled: .*(not found|unknown)/,
    },
    {
      name: 'a tag that it does not have',
      image: (host: string) => `${host}:v9`,
      says: /could not be pulled: .*(not found|unknown)/,
    },
    {
      name: 'a registry that is not there',
      image: () => '127.0.0.1:9/nothing',
      says: /could not be pulled: .*connection refused/,
    },
    { name: 'a name that is none', image: () => 'Not An Image', says: /"Not An Image" is not the name of an image/ },
    { name: 'a name that leads elsewhere', image: () => '../containers', says: /is not the name of an image/ },
  ];
  for (const { name, image, says } of failures) {
    test(`${name} is a failure that says so`, async (t) => {
      const order = orderOf(t, '', { image: image(await published()) });
      await assert.rejects(
        launcherOn(t, daemon).prepare(order, () => {}, NEVER),
        (error) => {
          assert.ok(error instanceof LaunchError, String(error));
          assert.equal(error.reason, 'ImageFailed');
          assert.match(error.message, says);
          return true;
        },
      );
    });
  }

  /** A new image, which no engine has. */
  async function published(): Promise<string> {
    const [base] = (await testImages())[BUSYBOX]?.layers ?? [];
    const large = tar([{ name: 'mark', bytes: randomBytes(LARGE) }]);
    return registry.publish(`of-test/${randomUUID()}`, makeImage(base ? [base, large] : [], { Env: ['PATH=/bin'] }));
  }

  /** Holds layers back until it is opened or the test ends. */
  function held(t: TestContext): { open(): void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    registry.gate = promise;
    t.after(() => resolve());
    return { open: resolve };
  }
});

import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, describe, test } from 'node:test';
import {
  buckets,
  type Clusters,
  create,
  expectNothing,
  expectStatus,
  federated,
  member,
  read,
  services,
  startClusters,
} from '../support/federation.ts';
import { service } from '../support/jobs.ts';
import type { Answer } from '../support/manager.ts';
import { startWire } from '../support/wire.ts';

let them: Clusters;
before(async () => {
  them = await startClusters();
});
after(() => them[Symbol.asyncDispose]());

const post = (body: unknown, as = them.people.alice) => them.origin.call('POST', '/system/services', { as, body });

/** Three members. A rejection has one line for each. */
const three = (name: string) => [member(them.a, `${name}1`), member(them.b, `${name}2`), member(them.c, `${name}3`)];
const namesOf = (name: string) => [name, `${name}1`, `${name}2`, `${name}3`];

/** No request was sent to any member. */
async function expectUnasked(body: unknown, status: number, words: RegExp): Promise<void> {
  const was = them.all.map(({ wire }) => wire.seen.length);
  const answer = expectStatus(await post(body), status);
  assert.match(answer.text, words);
  assert.deepEqual(
    them.all.map(({ wire }) => wire.seen.length),
    was,
  );
  assert.ok(!(await services(them.origin)).includes((body as { name: string }).name));
}

describe('validation: an invalid definition is rejected before any member is asked (F29)', () => {
  const cases: [name: string, body: () => Record<string, unknown>, words: RegExp][] = [
    [
      'a cluster that nobody knows',
      () => federated('unknown', [member({ id: 'nowhere' }, 'x')], them.clusters),
      /cluster "nowhere" is unknown: name it under clusters/,
    ],
    [
      'no refresh token',
      () => ({ ...federated('grantless', [member(them.a, 'x')], them.clusters), environment: {} }),
      /refresh_token is required/,
    ],
    [
      'a blank refresh token',
      () =>
        federated('blank', [member(them.a, 'x')], them.clusters, { environment: { secrets: { refresh_token: '  ' } } }),
      /refresh_token is required/,
    ],
    [
      'the service itself as a member',
      () => federated('itself', [member(them.origin, 'itself')], them.clusters),
      /is the service itself/,
    ],
    [
      'a member twice',
      () => federated('twice', [member(them.a, 'x'), member(them.a, 'x', { priority: 2 })], them.clusters),
      /members\[1\]: is listed twice/,
    ],
    [
      '101 members',
      () =>
        federated(
          'many',
          Array.from({ length: 101 }, (_, n) => member(them.a, `many${n}`)),
          them.clusters,
        ),
      /has 101 members, but this cluster allows at most 100/,
    ],
    [
      'plain http to a public address',
      () => federated('plain', [member({ id: 'far' }, 'x')], { far: { endpoint: 'http://93.184.216.34' } }),
      /clusters\.far\.endpoint: must begin with https/,
    ],
    [
      'a private network that the operator did not name (F40)',
      () => federated('inside', [member({ id: 'far' }, 'x')], { far: { endpoint: 'https://10.0.0.1' } }),
      /10\.0\.0\.1 is not public/,
    ],
    [
      'the address of cloud metadata (F40)',
      () => federated('metadata', [member({ id: 'far' }, 'x')], { far: { endpoint: 'https://169.254.169.254' } }),
      /is not public/,
    ],
    [
      'a user in the endpoint',
      () => federated('account', [member({ id: 'far' }, 'x')], { far: { endpoint: 'https://me:pw@example.org' } }),
      /must not hold a user or password/,
    ],
    [
      'a query in the endpoint (F40)',
      () => federated('query', [member({ id: 'far' }, 'x')], { far: { endpoint: 'https://example.org/?x=' } }),
      /must end before any/,
    ],
    [
      'another scheme (F40)',
      () => federated('scheme', [member({ id: 'far' }, 'x')], { far: { endpoint: 'file:///etc/passwd' } }),
      /must be an http or https URL/,
    ],
    [
      'a topology that there is not',
      () => federated('shape', [member(them.a, 'x')], them.clusters, { federation: { topology: 'ring' } }),
      /topology/,
    ],
    [
      'a delegation that there is not',
      () => federated('policy', [member(them.a, 'x')], them.clusters, { federation: { delegation: 'dice' } }),
      /delegation/,
    ],
  ];
  for (const [name, body, words] of cases) test(name, () => expectUnasked(body(), 400, words));

  for (const name of ['../../system/config', 'a/b', 'a?x=1', 'a#b', 'A b', '..', '%2e%2e', 'x'.repeat(300)]) {
    test(`an invalid service_name: ${name.slice(0, 30)} (F40)`, () =>
      expectUnasked(federated('slashes', [member(them.a, name)], them.clusters), 400, /service_name/));
  }
});

/** The answer has one line for each member, with the reason of those that failed. */
function expectLines(answer: Answer, status: number, lines: readonly RegExp[]): void {
  expectStatus(answer, status);
  const [sentence, ...said] = answer.text.split('\n');
  assert.match(sentence ?? '', /nothing was created|was not created/);
  assert.equal(said.length, lines.length, answer.text);
  for (const [index, line] of lines.entries()) assert.match(said[index] ?? '', line);
}

describe('probe: with one bad member of three nothing is created, and the answer has a line for each (F17)', () => {
  test('an unreachable member is 504', async () => {
    const { b } = them;
    await b.wire.cut();
    try {
      expectLines(await post(federated('away', three('away'), them.clusters)), 504, [
        /oscar-cluster-a\/away1: ok/,
        /oscar-cluster-b\/away2: unreachable: /,
        /oscar-cluster-c\/away3: ok/,
      ]);
    } finally {
      await b.wire.mend();
    }
    await expectNothing(them.all, namesOf('away'));
  });

  test('credentials that are rejected there are 403', async () => {
    them.b.wire.interfere((_, response) => void response.writeHead(401).end());
    try {
      expectLines(await post(federated('refused', three('refused'), them.clusters)), 403, [
        /a\/refused1: ok$/,
        /b\/refused2: refused: cluster "oscar-cluster-b" does not accept who asks/,
        /c\/refused3: ok$/,
      ]);
    } finally {
      them.b.wire.interfere();
    }
    await expectNothing(them.all, namesOf('refused'));
  });

  test('the name of a service of another user is 409, and that service is not touched (F17, F22)', async () => {
    const { b, people } = them;
    await create(b, people.bob, service('taken2', 'echo bob'));
    const was = await read(b, people.bob, 'taken2');
    const answer = await post(federated('taken', three('taken'), them.clusters));
    expectLines(answer, 409, [/ ok$/, /b\/taken2: taken: .*another service there has this name/, / ok$/]);
    assert.ok(!answer.text.includes('00000002-bob'), 'whose it is is not said');
    assert.deepEqual(await read(b, people.bob, 'taken2'), was);
    assert.ok((await buckets(b)).includes('taken2'));
    await expectNothing([them.origin, them.a, them.c], namesOf('taken'));
  });

  test('a member of another federation is 409', async () => {
    const { origin, a, people } = them;
    await create(origin, people.alice, federated('first', [member(a, 'shared')], them.clusters));
    const second = await post(federated('second', [member(a, 'shared')], them.clusters));
    expectLines(second, 409, [/a\/shared: taken: the service of this name there is part of another federation/]);
    assert.ok((await services(a)).includes('shared'));
  });

  test('two ids of one manager for one service are 409', async () => {
    const { clusters, a } = them;
    const endpoint = clusters['oscar-cluster-a']?.endpoint ?? '';
    const body = federated('twins', [member(a, 'twin'), member({ id: 'alias' }, 'twin')], {
      ...clusters,
      alias: { endpoint },
    });
    expectLines(await post(body), 409, [/ ok$/, /alias\/twin: taken: it is the same service/]);
    await expectNothing(them.all, ['twins', 'twin']);
  });

  test('the coordinator under another id is 400', async () => {
    const { clusters, origin } = them;
    const body = federated('mirror', [member({ id: 'alias' }, 'mirror')], {
      ...clusters,
      alias: { endpoint: origin.wire.url },
    });
    const answer = expectStatus(await post(body), 400);
    assert.match(answer.text, /is the service itself/);
    await expectNothing(them.all, ['mirror']);
  });

  test('a name that is taken here is 409, and no member was created', async () => {
    const { origin, people } = them;
    await create(origin, people.bob, service('mine', 'echo bob'));
    expectStatus(await post(federated('mine', three('mine'), them.clusters)), 409);
    await expectNothing([them.a, them.b, them.c], namesOf('mine'));
    assert.equal((await read(origin, people.bob, 'mine')).name, 'mine');
  });
});

describe('rollback: a member that fails during its create rolls back everything (F22, F23)', () => {
  const FAULTS: Record<string, (response: ServerResponse) => void> = {
    'it answers 500': (response) => response.writeHead(500).end(),
    'it hangs up': (response) => response.destroy(),
  };
  for (const [fault, make] of Object.entries(FAULTS)) {
    test(fault, async () => {
      const name = fault.replaceAll(' ', '');
      them.c.wire.interfere(async ({ method }, response, passOn) => {
        if (method === 'POST') make(response);
        else await passOn();
      });
      try {
        const answer = await post(federated(name, three(name), them.clusters));
        assert.ok([424, 504].includes(answer.status), `${answer.status}: ${answer.text}`);
        assert.match(answer.text, /everything that was created is rolled back/);
      } finally {
        them.c.wire.interfere();
      }
      await expectNothing(them.all, namesOf(name));
      await create(them.origin, them.people.alice, federated(name, three(name), them.clusters));
    });
  }

  test('a create without an answer is rolled back too, and creates nothing if it arrives after its undo', async () => {
    let late: (() => Promise<void>) | undefined;
    them.c.wire.interfere(async ({ method }, response, passOn) => {
      if (method !== 'POST') return passOn();
      // The answer is lost, and the request arrives long after the undo.
      late = passOn;
      response.destroy();
    });
    try {
      expectStatus(await post(federated('late', three('late'), them.clusters)), 504);
    } finally {
      them.c.wire.interfere();
    }
    await late?.();
    await expectNothing(them.all, namesOf('late'));
  });
});

describe('probe: a member that is not a manager is rejected, and its answer is not shown (F40)', () => {
  const SECRET = 'internal page 4711';
  const ANSWERS: Record<string, (response: ServerResponse) => void> = {
    HTML: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<h1>${SECRET}</h1>`),
    'an error page': (response) => response.writeHead(500, { 'content-type': 'text/plain' }).end(SECRET),
    '10 MB': (response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(`"${SECRET.repeat(600_000)}"`),
    'other JSON': (response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ found: SECRET })),
    'a redirect': (response) => response.writeHead(302, { location: `${them.b.wire.url}/${SECRET}` }).end(SECRET),
    'a name that is none': (response) =>
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ found: 'own', instance: SECRET, version: '"\r\nX: y' })),
  };
  for (const [name, listener] of Object.entries(ANSWERS)) {
    test(name, async () => {
      await using elsewhere = await startWire();
      elsewhere.interfere((_, response) => listener(response));
      const others = them.b.wire.seen.length;
      const clusters = { ...them.clusters, elsewhere: { endpoint: elsewhere.url } };
      const answer = await post(federated('page', [member({ id: 'elsewhere' }, 'page1')], clusters));
      assert.ok([424, 504].includes(answer.status), `${answer.status}: ${answer.text}`);
      assert.ok(!answer.text.includes(SECRET), answer.text);
      assert.equal(them.b.wire.seen.length, others, 'nobody is led elsewhere');
      await expectNothing(them.all, ['page', 'page1']);
    });
  }
});

test('deadline: members that do not answer are abandoned after their time, and nothing is left (F31)', async () => {
  const { a, b, c } = them;
  for (const { wire } of [a, b, c]) wire.interfere(() => undefined);
  try {
    const answer = await post(federated('hangs', three('hangs'), them.clusters));
    expectLines(answer, 504, [/hangs1: unreachable/, /hangs2: unreachable/, /hangs3: unreachable/]);
  } finally {
    for (const { wire } of [a, b, c]) wire.interfere();
  }
  await expectNothing(them.all, namesOf('hangs'));
});

test('concurrency: all members are probed concurrently, and created concurrently (F48)', async () => {
  const { a, b, c, origin, people } = them;
  // No member answers before all have been asked, so sequential requests would wait forever.
  const rooms = new Map<string, { waiting: number; all: PromiseWithResolvers<void> }>();
  for (const { wire } of [a, b, c]) {
    wire.interfere(async ({ method }, _, passOn) => {
      const room = rooms.get(method) ?? { waiting: 0, all: Promise.withResolvers<void>() };
      rooms.set(method, room);
      room.waiting += 1;
      if (room.waiting === 3) room.all.resolve();
      await room.all.promise;
      await passOn();
    });
  }
  try {
    await create(origin, people.alice, federated('atonce', three('atonce'), them.clusters));
  } finally {
    for (const { wire } of [a, b, c]) wire.interfere();
  }
  assert.deepEqual([...rooms.keys()], ['GET', 'POST']);
});

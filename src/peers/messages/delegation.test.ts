import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { PERMIT, SNAPSHOT } from '../../delegation/memory-server.fixture.ts';
import type { Read } from '../../lib/fields.ts';
import type { Offer, Report } from '../delegation-ports.ts';
import {
  longestBody,
  parseTrace,
  readAttempt,
  readCode,
  readOffer,
  readOpened,
  readTaken,
  wrapEvent,
  writeAttempt,
  writeOffer,
  writeOpened,
} from './offer.ts';
import { readPermit, writePermit } from './permit.ts';
import { readReport, writeReport } from './report.ts';
import { readRoom, readStatus, writeRoom, writeStatus } from './status.ts';

const JOB = { service: 'cow', id: 'cow-0d9e7a52-1c36-4c6f-8f0e-0c7c2a3a9b11' };
const OFFER: Offer = {
  job: JOB,
  epoch: 3,
  service: 'cow-worker',
  from: 'oscar-cluster',
  event: Buffer.from('{"Records":[]}'),
  trigger: 'storage',
  pinned: false,
};

function value<T>(read: Read<T>): T {
  assert.ok('value' in read, `it was not read: ${'problems' in read && read.problems.join('; ')}`);
  return read.value;
}

function problems(read: Read<unknown>): readonly string[] {
  assert.ok('problems' in read, 'it was read');
  return read.problems;
}

const parsed = (text: string): Record<string, unknown> => JSON.parse(text) as Record<string, unknown>;

test('an offer is written like this', () => {
  assert.equal(
    writeOffer(OFFER),
    '{"storage_provider":"default","event":"{\\"Records\\":[]}","offer":{"job":"cow/cow-0d9e7a52-1c36-4c6f-8f0e-0c7c2a3a9b11",' +
      '"epoch":3,"trigger":"storage","pinned":false,"from":"oscar-cluster"}}',
  );
  const binary = parsed(writeOffer({ ...OFFER, event: Buffer.from([0xff]) }));
  assert.equal(binary['event'], '/w==');
  assert.equal((binary['offer'] as Record<string, unknown>)['encoding'], 'base64');
});

test('a job that entered elsewhere is written like this', () => {
  const opened = { job: JOB, event: Buffer.from('hello'), invoker: 'alice' };
  assert.equal(writeOpened(opened), `{"id":"${JOB.id}","event":"hello","invoker":"alice"}`);
  const binary = { ...opened, event: Buffer.from([0xff]) };
  assert.equal(writeOpened(binary), `{"id":"${JOB.id}","event":"/w==","encoding":"base64","invoker":"alice"}`);
});

test('an attempt is named like this in a query', () => {
  assert.equal(writeAttempt(OFFER), `job=cow/${JOB.id}&epoch=3`);
  assert.deepEqual(value(readAttempt({ job: `cow/${JOB.id}`, epoch: '3' })), { job: JOB, epoch: 3 });
});

test('reports are written like this', () => {
  const ending = { finishedAt: 20.4, reason: 'ScriptFailed', message: 'it failed' };
  const reports: [Report, string][] = [
    [{ state: 'running' }, '{"state":"running"}'],
    [{ state: 'running', startedAt: 10, message: 'm' }, '{"state":"running","started_at":10,"message":"m"}'],
    [{ state: 'released', reason: 'NoRoom', message: 'm' }, '{"state":"released","reason":"NoRoom","message":"m"}'],
    [
      { state: 'failed', startedAt: 10, exitCode: 7, ...ending },
      '{"state":"failed","started_at":10,"finished_at":20,"exit_code":7,"reason":"ScriptFailed","message":"it failed"}',
    ],
    [
      { state: 'succeeded', ...ending, manifest: 'ab'.repeat(32) },
      `{"state":"succeeded","finished_at":20,"reason":"ScriptFailed","message":"it failed","manifest":"${'ab'.repeat(32)}"}`,
    ],
  ];
  for (const [report, text] of reports) assert.equal(writeReport(report), text);
});

test('a report is heard, however long and strange its words are', () => {
  const ending = { state: 'failed', finishedAt: 1, exitCode: 1 } as const;
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 3000 }), fc.string(), (message, reason) => {
      const read = value(readReport(parsed(writeReport({ ...ending, reason, message }))));
      assert.ok(read.state === 'failed' && read.message.length <= 1000);
    }),
  );
});

test('every event arrives byte for byte, and within the longest body', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 500 }),
    fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
    fc.tuple(fc.constantFrom(0x00, 0x22, 0x5c, 0x61, 0xff), fc.nat(200_000)).map(([byte, n]) => Buffer.alloc(n, byte)),
  );
  fc.assert(
    fc.property(bytes, (event) => {
      const offer = writeOffer({ ...OFFER, event });
      assert.ok(Buffer.from(event).equals(value(readOffer(parsed(offer))).event));
      const opened = writeOpened({ job: JOB, event, invoker: 'é'.repeat(256) });
      assert.ok(Buffer.from(event).equals(value(readOpened(parsed(opened))).event));
      for (const body of [offer, opened]) assert.ok(Buffer.byteLength(body) <= longestBody(event.length));
    }),
  );
});

const wrong: [string, Record<string, unknown>][] = [
  ['a job of no service', { job: JOB.id }],
  ['a job with a path in it', { job: `cow/../${JOB.id}` }],
  ['a job with a line break', { job: `cow/${JOB.id}\n` }],
  ['no epoch', { epoch: 0 }],
  ['an epoch in words', { epoch: '3' }],
  ['half an epoch', { epoch: 1.5 }],
  ['an unknown trigger', { trigger: 'timer' }],
  ['neither here nor there', { pinned: 'no' }],
  ['an origin that is none', { from: 'a b' }],
  ['an unknown encoding', { encoding: 'hex' }],
];
for (const [what, changes] of wrong) {
  test(`an offer with ${what} is none`, () => {
    const { offer, ...rest } = parsed(writeOffer(OFFER));
    problems(readOffer({ ...rest, offer: { ...(offer as object), ...changes } }));
  });
}

test('what says to be base64 has to be', () => {
  for (const event of ['/w=', 'no base64!', '/x==', ' /w==']) {
    const { offer } = parsed(writeOffer(OFFER));
    problems(readOffer({ event, offer: { ...(offer as object), encoding: 'base64' } }));
    problems(readOpened({ id: JOB.id, event, encoding: 'base64', invoker: '' }));
  }
});

test('attempts in queries are read strictly', () => {
  for (const epoch of ['0', '-1', '1.5', '03', '1e3', '', '99999999999999999', ['1', '2'], 3]) {
    problems(readAttempt({ job: `cow/${JOB.id}`, epoch }));
  }
  for (const job of ['cow', 'cow/', `/${JOB.id}`, `Cow/${JOB.id}`, `cow/${JOB.id}/x`, [`cow/${JOB.id}`]]) {
    problems(readAttempt({ job, epoch: '3' }));
  }
});

test('a permit is read as it was written; one that lacks something is none', () => {
  const wire = parsed(JSON.stringify(writePermit(PERMIT)));
  assert.deepEqual(value(readPermit({ ...wire, later: true })), PERMIT);
  for (const key of ['minio_provider', 'staging', 'lease']) {
    const { [key]: _, ...rest } = wire;
    problems(readPermit(rest));
  }
  for (const key of ['endpoint', 'verify', 'region', 'access_key', 'secret_key', 'expires_at']) {
    const { [key]: _, ...provider } = wire['minio_provider'] as Record<string, unknown>;
    problems(readPermit({ ...wire, minio_provider: provider }));
  }
  problems(readPermit({ ...wire, input: { bucket: 'x', key: '' } }));
});

test('the problem of a permit never says what the keys are', () => {
  const wire = writePermit(PERMIT);
  const told = problems(
    readPermit({ ...wire, minio_provider: { ...wire.minio_provider, secret_key: 'a secret one' } }),
  );
  assert.doesNotMatch(told.join(), /a secret one/);
});

test('the status of a cluster is read as it was written', () => {
  assert.deepEqual(value(readStatus(parsed(JSON.stringify(writeStatus(SNAPSHOT))))), SNAPSHOT);
  const measured = { ...SNAPSHOT, meanDuration: 1.5 };
  assert.deepEqual(value(readStatus(writeStatus(measured))), measured);
  problems(readStatus({ ...writeStatus(SNAPSHOT), nodes: [{ cpu: -1, memory: 0, gpu: 0 }] }));
  problems(readStatus({ ...writeStatus(SNAPSHOT), nodes: null }));
});

test('a trace is passed on, junk is not', () => {
  const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  assert.deepEqual(parseTrace(trace), { trace });
  for (const junk of [undefined, '', `${trace}\r\nx: y`, 'x']) assert.deepEqual(parseTrace(junk), {});
});

const wrapped: [string, string | Uint8Array, unknown][] = [
  ['an event', '{"a":1}', { storage_provider: 'default', event: '{"a":1}' }],
  ['text', 'aGVsbG8=', { storage_provider: 'default', event: 'aGVsbG8=' }],
  ['bytes', Buffer.from([0xff]), { storage_provider: 'default', event: '/w==' }],
  ['one that is wrapped', '{"storage_provider":"x","event":"e","more":1}', { storage_provider: 'x', event: 'e' }],
  [
    'one that is half wrapped',
    '{"storage_provider":"x"}',
    { storage_provider: 'default', event: '{"storage_provider":"x"}' },
  ],
];
for (const [what, event, expected] of wrapped) {
  test(`${what} is wrapped for others as they know it`, () => {
    assert.deepEqual(JSON.parse(wrapEvent(Buffer.from(event))), expected);
  });
}

test('junk of any kind is a problem in words, never an exception', () => {
  const readers = [readOffer, readOpened, readPermit, readReport, readStatus, readAttempt, readTaken, readCode];
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), fc.anything()), (junk) => {
      for (const read of readers) problems(read(junk));
    }),
  );
});

const ROOM = { ...SNAPSHOT, serial: 7, considering: { cpu: 1000, memory: 5, gpu: 0 }, queue: 3 };

test('room: a report and an answer tell it, and it is read again', () => {
  const report: Report = { state: 'running', startedAt: 5, room: ROOM };
  assert.deepEqual(value(readReport(parsed(writeReport(report)))), report);
  assert.deepEqual(readRoom({ attempt: 'x', ...writeRoom(ROOM) }), { room: ROOM });
  assert.equal(writeOffer({ ...OFFER, queue: true }).endsWith('"from":"oscar-cluster","queue":true}}'), true);
  assert.equal(value(readOffer(parsed(writeOffer({ ...OFFER, queue: true })))).queue, true);
});

test('room: a message of an earlier version has none, and is read as before', () => {
  assert.deepEqual(readRoom({ attempt: 'x' }), {});
  assert.equal(Object.hasOwn(value(readReport({ state: 'running' })), 'room'), false);
});

test('room: malformed figures are ignored, and the report that has them counts', () => {
  const node = { cpu: 1, memory: 1, gpu: 0 };
  const wire = writeStatus(ROOM);
  const malformed = [
    7,
    null,
    { ...wire, serial: undefined },
    { ...wire, serial: -1 },
    { ...wire, free_cpu: -1 },
    { ...wire, free_cpu: '4' },
    { ...wire, queue: 1.5 },
    { ...wire, considering: { cpu: -1, memory: 0, gpu: 0 } },
    { ...wire, nodes: Array.from({ length: 65 }, () => node) },
  ];
  for (const room of malformed) {
    const sent = JSON.parse(JSON.stringify({ state: 'running', room })) as unknown;
    assert.deepEqual(value(readReport(sent)), { state: 'running' }, JSON.stringify(room));
  }
});

test('room: a cluster of many nodes leaves it out, and so does a manager without a serial', () => {
  const [node = { cpu: 0, memory: 0, gpu: 0 }] = SNAPSHOT.nodes;
  assert.deepEqual(writeRoom({ ...ROOM, nodes: Array.from({ length: 65 }, () => node) }), {});
  assert.deepEqual(writeRoom(SNAPSHOT), {});
});

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type MemoryServer, PERMIT, SNAPSHOT } from '../delegation/memory-server.fixture.ts';
import { hostedAttemptName } from '../jobs/index.ts';
import { Secret } from '../lib/secret.ts';
import type { AttemptKey, Offer, Origin, PeerCredentials, RefusalCode, Report, Target } from './delegation-ports.ts';
import { DelegationError, type DelegationErrorCode } from './errors.ts';
import type { MemberKey } from './peer.ts';

/** A manager behind the port, played by a {@link MemoryServer}. */
export interface TargetUnderTest {
  readonly target: Target;
  readonly server: MemoryServer;
  /** The worker there, of a user, and the credentials of its coordinator. */
  readonly service: string;
  readonly speaker: PeerCredentials;
  /** A worker of the administrator, and its coordinator. */
  readonly administered: { readonly service: string; readonly speaker: PeerCredentials };
  close(): Promise<void>;
}

export interface OriginUnderTest {
  readonly origin: Origin;
  readonly server: MemoryServer;
  /** The service of the coordinator, one of its members, and one that is leaving. */
  readonly service: string;
  readonly member: MemberKey;
  readonly leaving: MemberKey;
  /** One that has to go at once. */
  readonly undone: MemberKey;
  /** A service of another federation there. */
  readonly other: string;
  close(): Promise<void>;
}

const WRONG = new Secret('0123456789abcdef'.repeat(4));
const JOB = { service: 'cow', id: 'cow-0d9e7a52-1c36-4c6f-8f0e-0c7c2a3a9b11' };
const ATTEMPT: AttemptKey = { job: JOB, epoch: 3 };

const EVENTS: readonly [string, Uint8Array][] = [
  ['JSON', Buffer.from('{"Records":[{"s3":{"object":{"key":"in/ü.png"}}}]}')],
  ['nothing', new Uint8Array()],
  ['text with a mark of its byte order', Buffer.from('\uFEFFtext\r\n\0')],
  ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28])],
  ['an event that is wrapped already', Buffer.from('{"storage_provider":"minio.x","event":"e"}')],
  ['more quotation marks than anybody needs', Buffer.from('"'.repeat(1_500_000))],
];

export function describeTarget(name: string, make: () => Promise<TargetUnderTest>): void {
  describe(`${name}, as the target of jobs`, () => {
    let under: TargetUnderTest;
    beforeEach(async () => {
      under = await make();
    });
    afterEach(() => under.close());

    const offerOf = (changes: Partial<Offer> = {}): Offer => ({
      ...ATTEMPT,
      service: under.service,
      from: 'oscar-cluster',
      event: Buffer.from('{}'),
      trigger: 'storage',
      pinned: false,
      trace: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      ...changes,
    });
    const nameOf = ({ uid, member }: PeerCredentials, service = under.service) =>
      hostedAttemptName(uid, member, JOB, 3, service);

    test('an offer is taken under the name that follows from it, and again alike', async () => {
      const { target, speaker, server } = under;
      const taken = { kind: 'taken', attempt: nameOf(speaker) };
      assert.deepEqual(await target.offer(offerOf(), speaker), taken);
      assert.deepEqual(await target.offer(offerOf(), speaker), taken);
      assert.equal(server.attempts.size, 1);
    });

    test('all that an offer says arrives, and who it is from', async () => {
      const { target, speaker, server, service } = under;
      const offers = [offerOf(), offerOf({ trigger: 'job', pinned: true, epoch: 4 })];
      for (const offer of offers) await target.offer(offer, speaker);
      assert.deepEqual(
        server.offers.map(({ offer }) => ({ ...offer, event: Buffer.from(offer.event) })),
        offers,
      );
      const [first] = server.offers;
      assert.deepEqual([first?.from.uid, first?.from.member], [speaker.uid, speaker.member]);
      assert.equal(first?.from.worker.service.definition.name, service);
    });

    for (const [what, event] of EVENTS) {
      test(`${what} arrives byte for byte`, async () => {
        const { target, speaker, server } = under;
        assert.equal((await target.offer(offerOf({ event }), speaker)).kind, 'taken');
        assert.ok(Buffer.from(event).equals(server.offers[0]?.offer.event ?? Buffer.from('other')));
      });
    }

    test('another event under the same offer is refused', async () => {
      const { target, speaker } = under;
      await target.offer(offerOf(), speaker);
      const answer = await target.offer(offerOf({ event: Buffer.from('[]') }), speaker);
      assert.equal(answer.kind === 'refused' && answer.code, 'payload-differs');
    });

    const refusals: [DelegationErrorCode, RefusalCode][] = [
      ['offer-no-room', 'no-room'],
      ['input-unreadable', 'input-unreadable'],
      ['fenced', 'fenced'],
      ['job-gone', 'fenced'],
      ['offer-not-allowed', 'not-allowed'],
      ['origin-silent', 'failed'],
    ];
    for (const [thrown, code] of refusals) {
      test(`"${thrown}" over there is "${code}", in our own words`, async () => {
        const { target, speaker, server } = under;
        server.problem = new DelegationError(thrown, 'words of the other side');
        const answer = await target.offer(offerOf(), speaker);
        assert.equal(answer.kind === 'refused' && answer.code, code);
        assert.match(answer.kind === 'refused' ? answer.reason : '', /^cluster "[^"]+" (has|cannot|was|does|could)/);
        assert.doesNotMatch(JSON.stringify(answer), /words of the other side/);
      });
    }

    test('whether an offer was taken is not known when the other side fails', async () => {
      const { target, speaker, server } = under;
      server.problem = new Error('a fault');
      await assert.rejects(target.offer(offerOf(), speaker));
    });

    test('origin: a request without the key is rejected, and no other manager is asked', async () => {
      const { target, speaker, server } = under;
      const forger = { ...speaker, key: WRONG };
      const answer = await target.offer(offerOf(), forger);
      assert.equal(answer.kind === 'refused' && answer.code, 'not-allowed');
      await assert.rejects(target.status(forger), { name: 'PeerError', code: 'refused' });
      await assert.rejects(target.stop(offerOf(), forger), { name: 'PeerError', code: 'refused' });
      const log = target.logs(offerOf(), { timestamps: false, follow: false }, forger);
      await assert.rejects(Array.fromAsync(log), { name: 'PeerError', code: 'refused' });
      assert.deepEqual([server.offers, server.stopped], [[], []]);
    });

    test('offer: the member key is enough, and a token is neither needed nor checked', async () => {
      const { target, speaker, administered } = under;
      const { uid, member, key } = speaker;
      for (const as of [
        { uid, member, key },
        { ...speaker, bearer: new Secret('a token of an unknown user') },
      ]) {
        assert.equal((await target.offer(offerOf(), as)).kind, 'taken');
      }
      const offer = offerOf({ service: administered.service });
      assert.equal((await target.offer(offer, administered.speaker)).kind, 'taken');
    });

    test('one worker is not offered to with the key of another, and none that is not there', async () => {
      const { target, speaker, administered } = under;
      const other = await target.offer(offerOf({ service: administered.service }), speaker);
      assert.ok(other.kind === 'refused' && ['no-worker', 'not-allowed'].includes(other.code));
      const member = `${speaker.member.split('/')[0]}/nowhere`;
      const none = await target.offer(offerOf({ service: 'nowhere' }), { ...speaker, member });
      assert.equal(none.kind === 'refused' && none.code, 'no-worker');
    });

    test('an attempt is ended; one that is not there, or whose worker is not, is no mistake', async () => {
      const { target, speaker, server, service } = under;
      await target.offer(offerOf(), speaker);
      await target.stop(offerOf(), speaker);
      await target.stop(offerOf(), speaker);
      assert.deepEqual(server.stopped, [{ service, id: nameOf(speaker) }]);
      const member = `${speaker.member.split('/')[0]}/nowhere`;
      await target.stop(offerOf({ service: 'nowhere' }), { ...speaker, member });
    });

    test('what a script printed comes as it was printed', async () => {
      const { target, speaker, server } = under;
      await target.offer(offerOf(), speaker);
      for (const [timestamps, follow] of [
        [false, false],
        [true, true],
      ] as const) {
        const log = await Array.fromAsync(target.logs(offerOf(), { timestamps, follow }, speaker));
        assert.equal(Buffer.concat(log).toString(), 'one\ntwo\n');
      }
      assert.deepEqual(
        server.logOptions.map(({ timestamps, follow }) => [timestamps, follow]),
        [
          [false, false],
          [true, true],
        ],
      );
      await assert.rejects(
        Array.fromAsync(target.logs(offerOf({ epoch: 9 }), { timestamps: false, follow: false }, speaker)),
        { name: 'PeerError', code: 'gone' },
      );
    });

    test('who stops following a log is not missed', async () => {
      const { target, speaker, server } = under;
      await target.offer(offerOf(), speaker);
      const { promise: noticed, resolve } = Promise.withResolvers<void>();
      server.printed = {
        async *[Symbol.asyncIterator]() {
          yield Buffer.from('one\n');
          const { signal } = server.logOptions[0] ?? {};
          if (!signal?.aborted) await new Promise((left) => signal?.addEventListener('abort', left, { once: true }));
          resolve();
        },
      };
      const leaving = new AbortController();
      const read: string[] = [];
      const options = { timestamps: false, follow: true, signal: leaving.signal };
      for await (const piece of target.logs(offerOf(), options, speaker)) {
        read.push(Buffer.from(piece).toString());
        leaving.abort();
      }
      assert.deepEqual(read, ['one\n']);
      await noticed;
    });

    test('what is free there is told, and how long it took to ask', async () => {
      const { roundTrip, ...status } = await under.target.status(under.speaker);
      assert.deepEqual(status, SNAPSHOT);
      assert.ok(roundTrip !== undefined && roundTrip >= 0);
    });
  });
}

export function describeOrigin(name: string, make: () => Promise<OriginUnderTest>): void {
  describe(`${name}, as the origin of jobs`, () => {
    let under: OriginUnderTest;
    beforeEach(async () => {
      under = await make();
    });
    afterEach(() => under.close());

    const attemptOf = (service = under.service): AttemptKey => ({ job: { ...JOB, service }, epoch: 3 });
    const entered = (event: Uint8Array) => ({
      job: { ...JOB, service: under.service },
      event,
      invoker: 'älice@issuer',
    });

    test('a permit brings all that is needed, keys included', async () => {
      const { origin, member, server } = under;
      const permit = await origin.permit(attemptOf(), member);
      assert.deepEqual(permit, PERMIT);
      assert.equal(permit.store.secretKey.reveal(), PERMIT.store.secretKey.reveal());
      assert.equal(permit.store.sessionToken?.reveal(), PERMIT.store.sessionToken?.reveal());
      const [asked] = server.permits;
      assert.deepEqual(asked?.attempt, attemptOf());
      const { clusterId, service } = asked?.from.member ?? {};
      assert.equal(`${clusterId}/${service}`, member.member);
      assert.equal(asked?.from.record.service.definition.name, under.service);
    });

    test('again it brings what there is by then: no input, no session', async () => {
      const { origin, member, server } = under;
      await origin.permit(attemptOf(), member);
      const { input: _, ...rest } = PERMIT;
      const { sessionToken: __, ...store } = PERMIT.store;
      server.permitted = { ...rest, store };
      assert.deepEqual(await origin.permit(attemptOf(), member), server.permitted);
    });

    for (const code of ['fenced', 'job-gone'] as const) {
      test(`"${code}" is heard as that, whatever was asked`, async () => {
        const { origin, member, server } = under;
        server.problem = new DelegationError(code, 'words of the other side');
        const heard = (error: Error & { code?: string }) => error.name === 'DelegationError' && error.code === code;
        await assert.rejects(origin.permit(attemptOf(), member), heard);
        await assert.rejects(origin.report(attemptOf(), { state: 'running' }, member), heard);
      });
    }

    const gone: [string, () => MemberKey][] = [
      ['an unknown federation', () => ({ ...under.member, uid: 'another' })],
      ['a member that is none', () => ({ ...under.member, member: 'elsewhere/cow' })],
      ['a member that has to go at once', () => under.undone],
    ];
    for (const [what, as] of gone) {
      test(`${what} hears that it is gone`, async () => {
        const { origin, server } = under;
        const over = { name: 'FederationError', code: 'federation-gone' };
        await assert.rejects(origin.permit(attemptOf(), as()), over);
        await assert.rejects(origin.report(attemptOf(), { state: 'running' }, as()), over);
        await assert.rejects(origin.open(entered(Buffer.from('{}')), as()), over);
        assert.deepEqual([server.permits, server.reports, server.opened], [[], [], []]);
      });
    }

    test('who has not the key is refused, and so is who asks about the service of others', async () => {
      const { origin, member, server, other } = under;
      const refused = { name: 'PeerError', code: 'refused' };
      await assert.rejects(origin.permit(attemptOf(), { ...member, key: WRONG }), refused);
      await assert.rejects(origin.permit(attemptOf(other), member), refused);
      await assert.rejects(origin.report(attemptOf(other), { state: 'running' }, member), refused);
      assert.deepEqual(server.permits, []);
    });

    test('a member that leaves still asks and reports', async () => {
      const { origin, leaving } = under;
      await origin.permit(attemptOf(), leaving);
      await origin.report(attemptOf(), { state: 'running' }, leaving);
    });

    const ending = { finishedAt: 1_767_225_600_000, reason: 'ScriptFailed', message: 'the script ended with 7 – “so”' };
    const reports: Report[] = [
      { state: 'running' },
      { state: 'running', startedAt: 1_767_225_500_000, message: 'pulling image: 40 %' },
      { state: 'released', reason: 'NoRoom', message: 'no room after all' },
      { state: 'failed', ...ending },
      { state: 'failed', ...ending, startedAt: 1, exitCode: 7 },
      { state: 'failed', ...ending, exitCode: -1 },
      { state: 'succeeded', ...ending, exitCode: 0, manifest: 'ab'.repeat(32) },
    ];
    for (const report of reports) {
      test(`the report ${JSON.stringify(report)} arrives`, async () => {
        const { origin, member, server } = under;
        await origin.report(attemptOf(), report, member);
        assert.deepEqual(server.reports[0]?.report, report);
        assert.deepEqual(server.reports[0]?.attempt, attemptOf());
      });
    }

    for (const [what, event] of EVENTS) {
      test(`a job with ${what} is opened, byte for byte`, async () => {
        const { origin, member, server } = under;
        await origin.open(entered(event), member);
        const [opened] = server.opened;
        assert.deepEqual([opened?.job.job, opened?.job.invoker], [attemptOf().job, 'älice@issuer']);
        assert.ok(Buffer.from(event).equals(opened?.job.event ?? Buffer.from('other')));
      });
    }

    test('what fails over there was not done, and may be tried again', async () => {
      const { origin, member, server } = under;
      server.problem = new Error('a fault');
      await assert.rejects(origin.report(attemptOf(), { state: 'running' }, member));
      server.problem = undefined;
      await origin.report(attemptOf(), { state: 'running' }, member);
    });
  });
}

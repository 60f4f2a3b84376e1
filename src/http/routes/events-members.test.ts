import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import Fastify from 'fastify';
import { ledgerOf } from '../../federation/coordinator/ledger.fixture.ts';
import type { Ledger, LedgerMember } from '../../federation/coordinator/ledger.ts';
import { Ledgers, MemberWatch } from '../../federation/index.ts';
import { createAuthenticator } from '../../identity/index.ts';
import { ALICE, BOB, openJobs } from '../../jobs/jobs.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { ADMIN, by, Incoming, personOf } from '../jobs-server.fixture.ts';
import { OpenResponses } from '../open-answers.ts';
import { eventsRoutes } from './events.ts';

const member = (more: Partial<LedgerMember> = {}): LedgerMember => ({
  clusterId: 'b',
  service: 'demo1',
  endpoint: 'https://b.example',
  verify: true,
  guarded: true,
  kind: 'oscar',
  keyId: 'k',
  state: 'made',
  revision: 3,
  since: 1,
  ...more,
});

/** A manager with one federation of alice's, `demo`, whose ledger the test writes. */
async function open(t: TestContext, visibility = 'private') {
  const jobs = await openJobs();
  t.after(() => jobs[Symbol.asyncDispose]());
  await jobs.service('demo', { visibility }, ALICE);
  const { journal, services } = jobs.cluster;
  const made = await services.get('demo');
  assert.ok(made);
  const federation = { role: 'coordinator', uid: 'u', revision: 3, committed: true } as const;
  const record = await services.replace({ ...made.service, federation }, made.version);
  const ledgers = new Ledgers({ journal });
  await ledgers.begin(ledgerOf(member()));
  const app = Fastify();
  t.after(() => app.close());
  app.decorateRequest('who', '');
  const authenticator = createAuthenticator({
    admin: { username: 'oscar', password: new Secret('correct horse') },
    oidc: { verify: async (token) => personOf(token.replace('jwt-of-', '')) },
  });
  const now = () => Date.UTC(2026, 0, 1);
  const members = new MemberWatch({ journal, services, now }, 10);
  eventsRoutes(app, { authenticator, jobs, open: new OpenResponses(app), members, heartbeatMs: 20 });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return {
    jobs,
    app,
    follow: async (as: string) => new Incoming(await fetch(`${url}/system/events`, { headers: { authorization: as } })),
    /** The service goes first, as it does when it is deleted. */
    remove: async () => {
      await services.remove('demo', record.version);
      await ledgers.amend('u', (ledger: Ledger) => ({ ...ledger, phase: 'ending' }));
    },
    write: (...list: LedgerMember[]) => ledgers.amend('u', (ledger: Ledger) => ({ ...ledger, members: list })),
  };
}

const said = (event: object) => `event: member\ndata: ${JSON.stringify(event)}\n\n`;
const AT = '2026-01-01T00:00:00.000Z';
const READY = { service: 'demo', member: 'b/demo1', state: 'ready', revision: 3, at: AT };

describe('events of members', () => {
  test('tell at first what all of them are, then what they become, and when they are none any more', async (t) => {
    const { follow, write } = await open(t);
    const incoming = await follow(by(ALICE));
    await incoming.until(said(READY));
    await write(member({ reason: 'it did not answer' }));
    const { at, revision, ...known } = READY;
    await incoming.until(said({ ...known, state: 'unreachable', reason: 'it did not answer', revision, at }));
    await write(member({ state: 'leaving' }));
    await incoming.until('"state":"removing"');
    await write();
    await incoming.until('"state":"removed"');
    const again = await follow(ADMIN);
    await again.until(/id: /);
    assert.ok(!again.text.includes('event: member'), 'there is none');
    await Promise.all([incoming.leave(), again.leave()]);
  });

  test('member events: after a delete, subscribers who saw the members learn that they are gone', async (t) => {
    const { jobs, follow, write, remove } = await open(t);
    const [alice, bob] = [await follow(by(ALICE)), await follow(by(BOB))];
    await alice.until(said(READY));
    await remove();
    await jobs.service('demo', {}, BOB);
    await write(member({ state: 'undoing', end: 'undo' }));
    await alice.until('"state":"removing"');
    await write();
    await alice.until('"state":"removed"');
    await bob.until(/(:\nid: .+\n\n){3}/);
    assert.ok(!bob.text.includes('event: member'), 'who has the name now never knew of it');
    await Promise.all([alice.leave(), bob.leave()]);
  });

  test('member events: only for callers who may read the federation', async (t) => {
    const hidden = await open(t);
    const [admin, bob] = [await hidden.follow(ADMIN), await hidden.follow(by(BOB))];
    await admin.until(said(READY));
    await hidden.write(member({ state: 'left' }));
    await admin.until('"state":"removed-by-owner"');
    await bob.until(/(:\nid: .+\n\n){3}/);
    assert.ok(!bob.text.includes('event: member'));
    const shared = await open(t, 'public');
    const guest = await shared.follow(by(BOB));
    await guest.until(said(READY));
    await Promise.all([admin, bob, guest].map((each) => each.leave()));
  });

  test('come beside those of jobs, and leave with them', async (t) => {
    const { follow, jobs, app } = await open(t);
    let listening = 0;
    const usual = jobs.store.onChange.bind(jobs.store);
    jobs.store.onChange = (listener) => {
      const ends = usual(listener);
      listening += 1;
      return () => {
        listening -= 1;
        ends();
      };
    };
    const incoming = await follow(by(ALICE));
    await incoming.until(said(READY));
    await incoming.until(/:\nid: /);
    assert.equal(listening, 1);
    await incoming.leave();
    await eventually(() => assert.equal(listening, 0));
    const last = await follow(by(ALICE));
    await last.until(said(READY));
    await app.close();
    await last.toEnd();
  });
});

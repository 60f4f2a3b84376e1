import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../support/jobs.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';
import { startTestbed } from './testbed.ts';

/** Audited acts as Events of a real API server, with the rights of a manager. */
const testbed = await startTestbed();
after(() => testbed.plane.stop());

interface SeenEvent {
  readonly reason: string;
  readonly message: string;
  readonly type: string;
  readonly count: number;
}

async function seenEvents(selector: string): Promise<SeenEvent[]> {
  const query = new URLSearchParams({ fieldSelector: selector });
  const path = `/api/v1/namespaces/${MANAGER_NAMESPACE}/events?${query.toString()}`;
  return ((await testbed.plane.admin.do('GET', path)) as unknown as { items: SeenEvent[] }).items;
}

test('audit events: operators find refused acts with a field selector, and equal acts with a count', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  const events = cluster.auditEvents();
  t.after(() => events.close());
  for (let i = 0; i < 40; i++) {
    events.record({ action: 'service.delete', actor: 'user:mallory', object: 'service/x', outcome: 'refused' });
  }
  events.record({ action: 'service.create', actor: 'user:alice', object: 'service/y', outcome: 'success' });
  await eventually(async () => {
    const refused = await seenEvents('reportingComponent=oscar-manager,type=Warning');
    assert.equal(
      refused.reduce((sum, { count }) => sum + count, 0),
      40,
    );
    assert.ok(refused.length < 10, 'equal acts are one Event');
    assert.ok(refused.every(({ reason }) => reason === 'ServiceDelete'));
    assert.match(refused[0]?.message ?? '', /^user:mallory: service\.delete service\/x: refused/);
    assert.equal((await seenEvents('reportingComponent=oscar-manager,reason=ServiceCreate')).length, 1);
  });
  assert.deepEqual(testbed.problems, []);
});

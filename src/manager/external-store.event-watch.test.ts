import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EventTrouble, watchEvents } from './external-store.ts';

test('external store: a change of missing targets is logged, and rules are created once fewer are missing', async () => {
  const said: string[] = [];
  const log = {
    info: (text: string) => void said.push(`info ${text}`),
    warn: ({ set }: { set: string[] }, text: string) => void said.push(`warn ${text} ${set.join(' ')}`),
  };
  let trouble: EventTrouble | undefined;
  const watch = watchEvents(
    async () => trouble,
    log as unknown as Parameters<typeof watchEvents>[1],
    () => void said.push('eased'),
  );
  const look = async (set?: string[]) => {
    trouble = set && { problem: 'missing', set };
    assert.deepEqual(await watch.look(), trouble);
    return said.splice(0);
  };
  assert.deepEqual(await look(), [], 'all is well at first');
  assert.deepEqual(await look(['A', 'B']), ['warn missing A B']);
  assert.deepEqual(await look(['A', 'B']), []);
  assert.deepEqual(await look(['B']), ['warn missing B', 'eased']);
  assert.deepEqual(await look(), ['info the object store reports new objects again', 'eased']);
  assert.deepEqual(await look(), []);
});

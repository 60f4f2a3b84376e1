import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { eventJobName, readStorageEvents } from '../../model/job/index.ts';
import { readEvent } from '../event.ts';
import { openScene } from './intake.fixture.ts';
import { sweptEvent } from './sweep.ts';

test('swept event: it gives the same job as the event of the store', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  for (const key of ['in/a.txt', 'in/ünï code+1 &=(!).txt', 'in/%2F', 'in/日本 <x>', 'in/a/b/c']) {
    scene.clock.now += 1;
    await scene.upload('demo', key, key);
  }
  const events = (await scene.source.take(100)).map(({ json }) => json);
  const { items } = await scene.objects.objects('demo', { prefix: 'in/', limit: 100 });
  const files = items.filter(({ key }) => key !== 'in/');
  assert.deepEqual([events.length, files.length], [5, 5]);
  const identity = { uid: service.uid, name: 'demo' };
  for (const json of events) {
    const [real] = readStorageEvents(JSON.parse(Buffer.from(json).toString()));
    const found = files.find(({ key }) => key === real?.key);
    assert.ok(real && found);
    const swept = sweptEvent('demo', found);
    assert.equal(eventJobName(identity, swept.event), eventJobName(identity, real));
    assert.deepEqual(readEvent(swept.json).file, readEvent(json).file, 'the script is given the same file');
    const { principal: _, sourceAddress: __, ...unsigned } = real;
    assert.deepEqual(readStorageEvents(JSON.parse(Buffer.from(swept.json).toString())), [unsigned]);
  }
});

test('swept event: any key is decoded as it was encoded', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter((key) => key.isWellFormed());
  fc.assert(
    fc.property(text, fc.integer({ min: 1_000_000_000_000, max: 8_000_000_000_000 }), (key, modifiedAt) => {
      const { event, json } = sweptEvent('bucket', { key, bytes: 3, eTag: 'e', modifiedAt });
      assert.deepEqual(readStorageEvents(JSON.parse(Buffer.from(json).toString())), [event]);
    }),
  );
});

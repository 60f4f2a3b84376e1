import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import { updateService } from '../../services/index.ts';
import { removeService } from '../../services/remove.ts';
import { alice } from '../../services/services.fixture.ts';
import { swapSecrets } from './original-service.ts';
import { NAME, OWN, openScene } from './workers.fixture.ts';

const MINE = { environment: { PASSWORD: new Secret('mine') }, credentials: { slot: new Secret('mine too') } };

test('original: the secrets of a record are replaced completely', async () => {
  await using scene = openScene();
  const record = await scene.own();
  await swapSecrets(record, MINE, scene.catalog);
  const { uid, namespace } = record.service;
  assert.deepEqual((await scene.look()).secrets, {
    [`service/${namespace}/${NAME}`]: { PASSWORD: 'mine' },
    [`credentials/${uid}`]: { slot: 'mine too' },
  });
});

test('original: a task that was overtaken writes nothing, and leaves nothing if the service is gone', async () => {
  await using scene = openScene();
  const record = await scene.own();
  await updateService(alice, { ...OWN, script: 'echo newer' }, undefined, scene.catalog);
  const before = await scene.look();
  await swapSecrets(record, MINE, scene.catalog);
  assert.deepEqual(await scene.look(), before);
  await removeService(alice, NAME, undefined, scene.catalog);
  await swapSecrets(record, MINE, scene.catalog);
  assert.deepEqual((await scene.look()).secrets, {});
});

test('original: after two concurrent writers, the later record has its own secrets', async () => {
  await using scene = openScene();
  const first = await scene.own();
  const { services, secrets } = scene.catalog;
  const second = { current: first };
  const late = {
    ...scene.catalog,
    // Another writer changes the record between the read and the write.
    services: changedIn(services, {
      async get(name: string) {
        const seen = await services.get(name);
        if (second.current === first) {
          second.current = await services.replace(first.service, first.version);
          await swapSecrets(second.current, OTHERS, { ...scene.catalog, secrets });
        }
        return seen;
      },
    }),
  };
  await swapSecrets(first, MINE, late);
  assert.deepEqual(Object.values((await scene.look()).secrets), [{ PASSWORD: 'theirs' }]);
});

const OTHERS = { environment: { PASSWORD: new Secret('theirs') }, credentials: {} };

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { infoRoutes } from './info.ts';
import { ADMIN, ALICE, serve } from './metrics.fixture.ts';

const info = {
  version: '4',
  git_commit: '',
  architecture: 'amd64',
  kubernetes_version: '',
  manager_version: '1',
  manager_commit: 'c0ffee',
};
const trouble = { problem: 'the object store does not report new objects', set: ['A=on'] };

test('that the object store does not report new objects is told to the administrator alone', async (t) => {
  const get = await serve(t, (app, authenticator) =>
    infoRoutes(app, { authenticator, info, storeTrouble: async () => trouble }),
  );
  assert.deepEqual(JSON.parse((await get('/system/info', ADMIN)).text), { ...info, object_store_events: trouble });
  assert.deepEqual(JSON.parse((await get('/system/info', ALICE)).text), info);
});

test('info: that tokens of every application are accepted is told to the administrator alone', async (t) => {
  const tokenProblem = 'access tokens of every application of the issuers are accepted';
  const get = await serve(t, (app, authenticator) => infoRoutes(app, { authenticator, info, tokenProblem }));
  const shown = { ...info, access_tokens: { problem: tokenProblem } };
  assert.deepEqual(JSON.parse((await get('/system/info', ADMIN)).text), shown);
  assert.deepEqual(JSON.parse((await get('/system/info', ALICE)).text), info);
});

test('a store that cannot be asked, and one that has everything, are not spoken of', async (t) => {
  const answers = [() => Promise.reject(new Error('away')), async () => undefined];
  for (const storeTrouble of answers) {
    const get = await serve(t, (app, authenticator) => infoRoutes(app, { authenticator, info, storeTrouble }));
    assert.deepEqual(JSON.parse((await get('/system/info', ADMIN)).text), info);
  }
});

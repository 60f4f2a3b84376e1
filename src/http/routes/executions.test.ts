import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ALICE } from '../../jobs/jobs.fixture.ts';
import { ADMIN, by, type JobsServer, OPERATOR, startJobsServer, TOKEN } from '../jobs-server.fixture.ts';

describe('the execution log', () => {
  let server: JobsServer;
  before(async () => {
    server = await startJobsServer();
    await server.jobs.service('demo');
    await server.call('POST', '/job/demo?owner=secret', { as: by(ALICE), body: 'x' });
    await server.call('POST', '/job/demo', { as: TOKEN, body: 'x' });
    await server.call('POST', '/run/demo', { body: 'x' });
    await server.call('GET', '/system/jobs/demo', { as: ADMIN });
  });
  after(() => server[Symbol.asyncDispose]());

  const read = async (query = '', as = ADMIN) => {
    const { status, text } = await server.call('GET', `/system/logs${query}`, { as });
    assert.equal(status, 200);
    return (JSON.parse(text) as { logs: Record<string, unknown>[] }).logs;
  };

  test('has every invocation that was answered, and nothing else; queries stay out of it', async () => {
    assert.deepEqual(
      (await read()).map(({ status, method, path, user, client_ip: ip }) => [status, method, path, user, ip]),
      [
        [201, 'POST', '/job/demo', ALICE, '127.0.0.1'],
        [201, 'POST', '/job/demo', 'nil', '127.0.0.1'],
        [401, 'POST', '/run/demo', 'nil', '127.0.0.1'],
      ],
    );
  });

  test('is for the administrator and for users in USERS_ADMIN; for others 403 with a sentence', async () => {
    assert.equal((await read('', by(OPERATOR))).length, 3);
    const { status, text } = await server.call('GET', '/system/logs', { as: by(ALICE) });
    assert.equal(status, 403);
    assert.match(text, /USERS_ADMIN/);
    assert.equal((await server.call('GET', '/system/logs', { as: TOKEN })).status, 401);
    const nobody = await server.call('GET', '/system/logs');
    assert.deepEqual(
      [nobody.status, nobody.headers.get('www-authenticate')],
      [401, 'Basic realm="Authorization Required"'],
    );
  });

  test('has nothing of the run before, and times in front of its lines if asked', async () => {
    assert.deepEqual(await read('?previous=true'), []);
    assert.match(String((await read('?timestamps=true'))[0]?.['raw']), /^\S+Z \[GIN-EXECUTIONS-LOGGER\]/);
    assert.match(String((await read('?timestamps=maybe'))[0]?.['raw']), /^\[GIN-EXECUTIONS-LOGGER\]/);
  });

  test('a slash at the end is redirected', async () => {
    const { status, headers } = await server.call('GET', '/system/logs/', { as: ADMIN });
    assert.deepEqual([status, headers.get('location')], [301, '/system/logs']);
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { readDefinition } from './read.ts';
import { type StoredSecrets, settleSecrets } from './secrets.ts';

const read = (more: Record<string, unknown>) => readDefinition({ name: 'demo', image: 'x', script: 'x', ...more });

function stored(more: Record<string, unknown>): StoredSecrets {
  const { definition, secrets } = read(more);
  return { definition, secrets: settleSecrets(definition, secrets, undefined).secrets };
}

function settle(more: Record<string, unknown>, before?: StoredSecrets) {
  const { definition, secrets } = read(more);
  const settled = settleSecrets(definition, secrets, before);
  const reveal = (map: Readonly<Record<string, { reveal(): string }>>) =>
    Object.fromEntries(Object.entries(map).map(([key, secret]) => [key, secret.reveal()]));
  return {
    environment: reveal(settled.secrets.environment),
    credentials: reveal(settled.secrets.credentials),
    problems: settled.problems.map(({ path }) => path),
  };
}

/** As it is stored once the vault of grants has its refresh token. */
function vaulted(more: Record<string, unknown>): StoredSecrets {
  const { definition, secrets } = stored(more);
  return { definition, secrets: { ...secrets, credentials: { 'federation/grant': new Secret('g1') } } };
}

const environment = (secrets: Record<string, string>) => ({ environment: { secrets } });

test('a blank environment secret keeps the stored value (R3)', () => {
  const before = stored(environment({ A: '1', B: '2' }));
  assert.deepEqual(settle(environment({ A: '', B: 'new' }), before).environment, { A: '1', B: 'new' });
});

test('secrets: a secret that is no longer in the definition is removed', () => {
  assert.deepEqual(settle(environment({}), stored(environment({ A: '1' }))).environment, {});
});

test('secrets: a blank secret without a stored value is empty', () => {
  assert.deepEqual(settle(environment({ A: '' })).environment, { A: '' });
});

const webdav = (password: string, hostname = 'dav.example') => ({
  storage_providers: { webdav: { w: { hostname, login: 'u', password } } },
});

test('secrets: for the key of a provider, "hidden" keeps the stored one, another value replaces it, a blank removes it', () => {
  const before = stored(webdav('p'));
  assert.deepEqual(settle(webdav('hidden'), before).credentials, { 'providers/webdav.w/password': 'p' });
  assert.deepEqual(settle(webdav('new'), before).credentials, { 'providers/webdav.w/password': 'new' });
  assert.deepEqual(settle(webdav(''), before).credentials, {});
});

test('secrets: the key of a provider is not kept for another address', () => {
  const settled = settle(webdav('hidden', 'evil.example'), stored(webdav('p')));
  assert.deepEqual(settled.credentials, {});
  assert.deepEqual(settled.problems, ['storage_providers.webdav.w.password']);
});

test('secrets: "hidden" in a new service is a problem', () => {
  assert.deepEqual(settle(webdav('hidden')).problems, ['storage_providers.webdav.w.password']);
});

const cluster = (auth_password: string, endpoint = 'https://b.example') => ({
  clusters: { b: { endpoint, auth_user: 'u', auth_password } },
});

test('secrets: a blank cluster password keeps the stored one, for the same address and account only', () => {
  const before = stored(cluster('p'));
  assert.deepEqual(settle(cluster(''), before).credentials, { 'clusters/b/auth_password': 'p' });
  assert.deepEqual(settle(cluster('', 'https://evil.example'), before).credentials, {});
});

const headers = (value: string) => ({
  federation: { members: [{ cluster_id: 'b', service_name: 'demo-b', headers: { 'X-Key': value } }] },
});

test('secrets: a blank header of a member keeps the stored value', () => {
  assert.deepEqual(Object.values(settle(headers(''), stored(headers('h'))).credentials), ['h']);
});

test('the refresh token of a federated service is kept apart from what its script gets (F36)', () => {
  const federated = (refresh_token: string) => ({ ...environment({ refresh_token, A: '1' }), federation: {} });
  const brought = settle(federated('rt'));
  assert.deepEqual(brought.environment, { A: '1' });
  assert.deepEqual(brought.credentials, { 'federation/refresh_token': 'rt' });
  const before = vaulted(federated('rt'));
  assert.deepEqual(before.definition.environment.secrets, { A: '', refresh_token: '' });
  assert.deepEqual(settle(federated(''), before).credentials, { 'federation/grant': 'g1' });
  assert.deepEqual(settle(federated('new'), before).credentials, { 'federation/refresh_token': 'new' });
});

test('secrets: a grant is kept as long as the service has a federation', () => {
  const before = vaulted({ ...environment({ refresh_token: 'rt' }), federation: {} });
  assert.deepEqual(settle({ federation: {} }, before).credentials, { 'federation/grant': 'g1' });
  const alone = settle(environment({ refresh_token: '' }), before);
  assert.deepEqual(alone.credentials, {});
  assert.deepEqual(alone.environment, { refresh_token: '' });
});

test('secrets: a refresh token that was an ordinary secret is hidden from the script when a federation is added', () => {
  const before = stored(environment({ refresh_token: 'rt', A: '1' }));
  const now = settle({ ...environment({ refresh_token: '', A: '' }), federation: {} }, before);
  assert.deepEqual(now.environment, { A: '1' });
  assert.deepEqual(now.credentials, { 'federation/refresh_token': 'rt' });
});

test('secrets: a refresh token in a body without a federation block is hidden from scripts if the stored federation is kept', () => {
  const { definition } = read({ federation: {} });
  const { secrets } = read(environment({ refresh_token: 'rt', A: '1' }));
  const settled = settleSecrets(definition, secrets, undefined).secrets;
  assert.deepEqual(Object.keys(settled.environment), ['A']);
  assert.deepEqual(Object.keys(settled.credentials), ['federation/refresh_token']);
});

test('secrets: without a federation, refresh_token is an ordinary secret', () => {
  assert.deepEqual(settle(environment({ refresh_token: 'rt' })).environment, { refresh_token: 'rt' });
});

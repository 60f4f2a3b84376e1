import { createAuthenticator } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { Credential } from '../../peers/index.ts';
import { describePeer } from '../../peers/peer.conformance.ts';
import { createService, updateService } from '../../services/index.ts';
import { admin, alice, bob, body } from '../../services/services.fixture.ts';
import { selfPeer } from './self-peer.ts';
import { openScene } from './workers.fixture.ts';

const basic = (username: string): Credential => ({ kind: 'basic', username, password: new Secret('password') });

describePeer('this manager itself', async () => {
  const scene = openScene();
  const authenticator = createAuthenticator({ admin: { username: 'admin', password: new Secret('password') } });
  const authenticate = async (credential: Credential) => {
    const name = credential.kind === 'basic' ? credential.username : '';
    const person = { alice, bob }[name];
    return person ?? authenticator.system([`Basic ${btoa(`${name}:password`)}`]);
  };
  return {
    peer: selfPeer(scene.workers, authenticate),
    owner: basic('alice'),
    stranger: basic('bob'),
    nobody: basic('nobody'),
    body: (name, text) => JSON.stringify(body({ name, script: `echo ${text}` })),
    make: async (name) => void (await createService(alice, body({ name }), scene.catalog)),
    change: async (name) => void (await updateService(admin, body({ name, cpu: '1' }), undefined, scene.catalog)),
    look: async (name) => (await scene.get(name))?.service,
    close: () => scene[Symbol.asyncDispose](),
  };
});

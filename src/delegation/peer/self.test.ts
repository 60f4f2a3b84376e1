import type { Credential } from '../../federation/index.ts';
import { describeOrigin, describeTarget } from '../terms.conformance.ts';
import { authenticator, openFederated } from './federated.fixture.ts';
import { selfOrigin, selfTarget } from './self.ts';

async function open() {
  const manager = await openFederated();
  const authenticate = (as: Credential) =>
    authenticator.system(as.kind === 'bearer' ? [`Bearer ${as.token.reveal()}`] : []);
  const deps = { ...manager, authenticate, clusterId: 'here' };
  return { manager, deps, close: () => manager[Symbol.asyncDispose]() };
}

describeTarget('this very manager', async () => {
  const { manager, deps, close } = await open();
  return { ...manager.target, target: selfTarget(deps), server: manager.server, close };
});

describeOrigin('this very manager', async () => {
  const { manager, deps, close } = await open();
  return { ...manager.origin, origin: selfOrigin(deps), server: manager.server, close };
});

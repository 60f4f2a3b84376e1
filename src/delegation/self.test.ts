import { openFederated } from '../peers/client/federated.fixture.ts';
import { describeOrigin, describeTarget } from '../peers/delegation-ports.conformance.ts';
import { selfOrigin, selfTarget } from './self.ts';

async function open() {
  const manager = await openFederated();
  const deps = { ...manager, clusterId: 'here' };
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

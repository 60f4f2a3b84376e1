import { describeRunner } from '../../../ports/conformance/runner.conformance.ts';
import type { RunnerUnderTest } from '../../../ports/conformance/runner-under-test.ts';
import { asCall, KnativeFixture } from './knative.fixture.ts';
import type { KnativeRunner } from './knative-runner.ts';

const WITH_ITS_MANAGER = 'a call ends with the manager that is connected to its pod: the next one finds it lost';

describeRunner(
  'calls of Knative',
  {
    image: 'not-used',
    basics: ['PATH', 'HOME', 'FROM_IMAGE', 'RESOURCE_ID'],
    cannot: {
      survival: WITH_ITS_MANAGER,
      'found ended': WITH_ITS_MANAGER,
      'kept files': 'what is kept of a call are objects of the cluster, not files',
      memory: 'here no container limits its pods: see knative-runner.test.ts',
      strays: 'here no container ends with its script: the first process of one tells everybody to go',
      'last words': 'the connection is what ends a script: what it prints after that reaches nobody',
      patience: 'only what runs for another cluster has some, and that is no call',
    },
  },
  make,
);

async function make(): Promise<RunnerUnderTest> {
  const ends: (() => unknown)[] = [];
  const place = await KnativeFixture.open({ after: (end) => void ends.push(end) });
  return {
    runner: calling(place.calls()),
    stores: place.stores,
    reopen: async () => calling(place.calls()),
    async close() {
      for (const end of ends) await end();
    },
  };
}

/** All attempts here are calls. */
function calling(runner: KnativeRunner): KnativeRunner {
  const start = runner.start.bind(runner);
  runner.start = (attempt) => start(asCall(attempt));
  return runner;
}

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Clusters, create, federated, member, startClusters } from '../support/federation.ts';
import { ALICE } from '../support/issuer.ts';
import { eventually } from '../support/jobs.ts';

/** Whoever runs it says so in its result. */
const SCRIPT = '#!/bin/sh\ncp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/$(basename "$INPUT_FILE_PATH")"\necho "ran $JOB_UUID"\n';

describe('jobs of a federation', () => {
  let clusters: Clusters;

  before(async () => {
    clusters = await startClusters({
      registered: true,
      settings: { OSCAR_PEER_NETWORKS: '127.0.0.0/8', OIDC_CLIENT_ID: 'oscar', OSCAR_LOCAL_CPU: '1' },
    });
  });
  after(() => clusters[Symbol.asyncDispose]());

  test('a file of the origin is worked on elsewhere, and its result is in the bucket of the origin', async () => {
    const { origin, a, b, people } = clusters;
    const { refreshToken } = await people.issuer.tokensFor(ALICE);
    const body = federated('flow', [member(a, 'flow-a'), member(b, 'flow-b')], {}, {
      script: SCRIPT,
      federation: { topology: 'star', delegate_when: 'always', self: { priority: 100 } },
      environment: { secrets: { refresh_token: refreshToken } },
    });
    await create(origin, people.alice, body);
    await origin.outside.put(people.alice, 'flow/in/x.txt', 'hello');
    const job = await eventually(async () => {
      const text = (await origin.call('GET', '/system/jobs/flow', { as: people.alice })).text; const { jobs: items } = JSON.parse(text);
      const [job] = items ?? [];
      assert.equal(job?.state, 'succeeded', text);
      return job;
    });
    assert.equal(await origin.outside.get(people.alice, 'flow/out/x.txt'), 'hello');
    const seen = (await origin.call('GET', `/system/jobs/flow/${job?.id}`, { as: people.alice })).json();
    console.log(JSON.stringify(seen, null, 1));
    console.log((await origin.call('GET', `/system/logs/flow/${job?.id}`, { as: people.alice })).text);
  });
});

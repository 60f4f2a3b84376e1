import { randomBytes } from 'node:crypto';
import { MemoryServer } from '../../delegation/memory-server.fixture.ts';
import type { LedgerMember } from '../../federation/coordinator/ledger.ts';
import { createWorker, Ledgers } from '../../federation/index.ts';
import { openScene, order, type Scene, WORKER } from '../../federation/worker/workers.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import { createService } from '../../services/index.ts';
import { admin, alice, body } from '../../services/services.fixture.ts';
import { memberKeyId } from '../connection/signature.ts';

/** A token that no message about a job needs. */
export const ALICE = new Secret('token-of-alice');
/** A manager with two workers of others, and two federations of its own; what it says of jobs is in memory. */
export async function openFederated() {
  const scene = openScene();
  scene.clock.now = Date.now();
  const { catalog, workers } = scene;
  const ofAlice = order({ name: 'demo', member: 'b/demo' });
  await createWorker(alice, ofAlice, workers);
  const ofAdmin = order({ name: 'herd', member: 'b/herd' }, { ...WORKER, name: 'herd' });
  await createWorker(admin, ofAdmin, workers);

  const members = {
    made: newMember('c', 'made'),
    leaving: newMember('d', 'leaving'),
    undone: newMember('e', 'undoing'),
  };
  await coordinate('cow', 'federation-of-cow', Object.values(members), scene);
  await coordinate('calf', 'federation-of-calf', [newMember('c', 'made')], scene);
  const keyOf = ({ entry, key }: Member) => ({ uid: 'federation-of-cow', member: `${entry.clusterId}/cow`, key });
  return {
    scene,
    workers,
    coordination: { ...catalog, services: catalog.services, secrets: catalog.secrets },
    server: new MemoryServer(),
    target: {
      service: 'demo',
      speaker: { uid: ofAlice.uid, member: ofAlice.member, key: ofAlice.key },
      administered: { service: 'herd', speaker: { uid: ofAdmin.uid, member: ofAdmin.member, key: ofAdmin.key } },
    },
    origin: {
      service: 'cow',
      member: keyOf(members.made),
      leaving: keyOf(members.leaving),
      undone: keyOf(members.undone),
      other: 'calf',
    },
    [Symbol.asyncDispose]: () => scene[Symbol.asyncDispose](),
  };
}

interface Member {
  readonly entry: LedgerMember;
  readonly key: Secret;
}

function newMember(clusterId: string, state: LedgerMember['state']): Member {
  const key = new Secret(randomBytes(32).toString('hex'));
  const place = { clusterId, endpoint: `https://${clusterId}.example`, verify: true, guarded: false } as const;
  return { key, entry: { ...place, service: 'cow', kind: 'oscar', keyId: memberKeyId(key), state, since: 0 } };
}

/** A coordinator as it is once its members are made. */
async function coordinate(name: string, uid: string, members: Member[], { catalog }: Scene): Promise<void> {
  const { service, version } = await createService(alice, body({ name }), catalog);
  const federation = { role: 'coordinator', uid, revision: 1, committed: true } as const;
  await catalog.services.replace({ ...service, federation }, version);
  for (const { entry, key } of members) await catalog.secrets.put('member', entry.keyId, { key });
  const entries = members.map(({ entry }) => entry);
  const ledger = { uid, service: name, serviceUid: service.uid, phase: 'active', revision: 1, begunAt: 0 } as const;
  await new Ledgers(catalog).begin({ ...ledger, members: entries });
}

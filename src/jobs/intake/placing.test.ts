import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewJob } from '../../model/job/index.ts';
import type { Definition, FederationRole, Service } from '../../model/service/index.ts';
import { placingOf } from './submit.ts';

const COORDINATOR: FederationRole = { role: 'coordinator', uid: 'u', revision: 1, committed: true };
const MEMBER = {
  type: 'oscar',
  cluster_id: 'b',
  service_name: 'cow',
  url: '',
  ssl_verify: false,
  priority: 0,
  headers: {},
};

function service(federation: Definition['federation'], role: FederationRole | undefined = COORDINATOR): Service {
  return { definition: { name: 'cow', federation }, ...(role && { federation: role }) } as Service;
}

const job = (known: Partial<NewJob> = {}) => ({ trigger: 'job' as const, ...known });
const star = { group_id: 'g', topology: 'star', members: [MEMBER] };
const taken = { uid: 'u', member: 'b/cow', job: { service: 'cow', id: 'cow-1' }, epoch: 1, payload: '' };

const cases = [
  {
    name: 'a service that stands alone runs its jobs here',
    placing: 'here',
    service: { definition: { name: 'cow' } } as Service,
  },
  { name: 'a service with members asks them when this cluster is full', placing: 'when-full', service: service(star) },
  {
    name: 'delegate_when: always asks the policy for every job',
    placing: 'anywhere',
    service: service({ ...star, delegate_when: 'always' }),
  },
  { name: 'without members there is nobody to ask', placing: 'here', service: service({ ...star, members: [] }) },
  {
    name: 'the topology none never delegates by itself',
    placing: 'here',
    service: service({ ...star, topology: 'None' }),
  },
  {
    name: 'a worker does not place jobs',
    placing: 'here',
    service: service(star, { role: 'worker' } as FederationRole),
  },
  {
    name: 'whoever waits for an answer waits here',
    placing: 'here',
    service: service(star),
    job: job({ trigger: 'run' }),
  },
  {
    name: 'what was taken from another cluster is not passed on',
    placing: 'here',
    service: service(star),
    job: job({ taken }),
  },
  {
    name: 'what another cluster has delegated the old way is not passed on either, whoever that was (F12)',
    placing: 'here',
    service: service({ ...star, delegate_when: 'always' }),
    job: job({ delegatedFrom: '' }),
  },
  {
    name: 'what entered at a worker is never in line here first',
    placing: 'anywhere',
    service: service(star),
    job: job({ openedBy: 'b/cow' }),
  },
];

for (const each of cases) {
  test(each.name, () => assert.equal(placingOf(each.service, each.job ?? job()), each.placing));
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NewJob } from '../../model/job/index.ts';
import type { Definition, FederationRole, Service } from '../../model/service/index.ts';
import { placementModeFor } from './submit.ts';

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
    name: 'a service without a federation is local',
    mode: 'local',
    service: { definition: { name: 'cow' } } as Service,
  },
  { name: 'a coordinator with members is overflow', mode: 'overflow', service: service(star) },
  {
    name: 'delegate_when: always is any',
    mode: 'any',
    service: service({ ...star, delegate_when: 'always' }),
  },
  { name: 'a coordinator without members is local', mode: 'local', service: service({ ...star, members: [] }) },
  {
    name: 'topology none is local',
    mode: 'local',
    service: service({ ...star, topology: 'None' }),
  },
  {
    name: 'a worker is local',
    mode: 'local',
    service: service(star, { role: 'worker' } as FederationRole),
  },
  {
    name: 'a synchronous call runs here if there is room, otherwise at a member (F39)',
    mode: 'overflow',
    service: service(star),
    job: job({ trigger: 'run' }),
  },
  {
    name: 'a synchronous call runs here if there is room, also if jobs are always delegated',
    mode: 'overflow',
    service: service({ ...star, delegate_when: 'always' }),
    job: job({ trigger: 'run' }),
  },
  {
    name: 'a hosted job is local: it is not delegated again',
    mode: 'local',
    service: service(star),
    job: job({ taken }),
  },
  {
    name: 'a job that a Go manager delegated is local, also if that manager did not name itself (F12)',
    mode: 'local',
    service: service({ ...star, delegate_when: 'always' }),
    job: job({ delegatedFrom: '' }),
  },
  {
    name: 'a job that entered at a worker is any: it is not queued here first',
    mode: 'any',
    service: service(star),
    job: job({ openedBy: 'b/cow' }),
  },
];

for (const each of cases) {
  test(`placement mode: ${each.name}`, () =>
    assert.equal(placementModeFor(each.service, each.job ?? job()), each.mode));
}

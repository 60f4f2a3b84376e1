import { ALICE, BOB } from '../../support/issuer-users.ts';
import { otherBody, patched } from './answers.ts';
import type { Difference } from './difference.ts';
import { type Patch, whole } from './patch.ts';

interface Source {
  readonly name: string;
  readonly status: 'ok' | 'partial' | 'missing';
  readonly notes?: '<text>';
}

const ok = (name: string): Source => ({ name, status: 'ok' });

/** What jobs asked for, times how long they ran. */
const HOURS: Source = { name: 'prometheus', status: 'partial', notes: '<text>' };
const REQUESTS = ok('request-logs');
/** Of a time from which no records are left. */
const FORGOTTEN: Source = { name: 'request-logs', status: 'partial', notes: '<text>' };
const COUNTRIES: Source = { name: 'country-attribution', status: 'missing', notes: '<text>' };
const EXPOSED = ok('exposed-request-logs');

const totalSources = (...requests: Source[]) => whole([ok('service-inventory'), HOURS, ...requests, EXPOSED]);

/** Two jobs were left when metrics were asked for: bob invoked `rec-restr`, and a file of the manager's ran `rec-pub`. */
const TWO_JOBS: Patch = {
  services_count_total: 2,
  cpu_hours_total: '<number>',
  requests_count_total: 2,
  requests_count_async: 2,
  countries: whole([]),
  users_count: 2,
  users: whole([ALICE.sub, BOB.sub]),
};

const totals = (jobs: Patch): Patch => ({ totals: jobs, sources: totalSources(REQUESTS, COUNTRIES) });

const once = (service: string, users?: readonly string[]) => ({
  key: service,
  requests_count_total: 1,
  requests_count_sync: 0,
  requests_count_async: 1,
  requests_count_exposed: 0,
  unique_users_count: 1,
  ...(users && { users }),
  countries: [],
});
const BY_SERVICE: Patch = { items: whole([once('rec-pub'), once('rec-restr')]) };
const WITH_USERS: Patch = { items: whole([once('rec-pub', [ALICE.sub]), once('rec-restr', [BOB.sub])]) };

const BY_USER: Patch = {
  items: whole([ALICE.sub, BOB.sub].map((key) => ({ key, membership: 'unknown', executions_count: 1, countries: [] }))),
};

const BY_COUNTRY: Patch = {
  items: whole([
    {
      key: 'unknown',
      executions_count: 2,
      unique_users_count: 2,
      countries: [{ country: 'unknown', request_count: 2 }],
    },
  ]),
};

/** The head of a table, and these lines. */
const table = (...lines: string[]) => otherBody(new RegExp(`^key,membership,[\\w,]+\\n${lines.join('\\n')}\\n$`));

/** A service whose jobs were all deleted, or that never was. */
const NONE_OF_ONE: Patch = {
  metrics: whole([
    { metric: 'cpu-hours', value: 0, unit: 'hours', sources: [HOURS] },
    { metric: 'gpu-hours', value: 0, unit: 'hours', sources: [HOURS] },
    { metric: 'requests-sync-per-service', value: 0, sources: [REQUESTS] },
    { metric: 'requests-async-per-service', value: 0, sources: [REQUESTS] },
    { metric: 'requests-exposed-per-service', value: 0, sources: [EXPOSED] },
    { metric: 'users-per-service', value: 0, sources: [REQUESTS] },
  ]),
};

/** The figures of services. */
export const METRICS: readonly Difference[] = [
  {
    id: 'metrics-from-records',
    kind: 'decision',
    title: 'Metrics are made from the records of jobs',
    reason:
      'The Go manager asks Prometheus for hours and reads requests from logs; in the recording neither was there, or ' +
      'two lines stood in for the log. Here both come from the jobs that are remembered, and deleted ones count no ' +
      'more. `request-logs` is `partial` for a time beyond `TTL_JOB`; `prometheus` always is, since hours are what ' +
      'jobs asked for times how long they ran; where requests come from is not recorded. Who used a service is told ' +
      'to those who may know, how many they were to everybody who sees it.',
    cases: [
      { matches: [456, 480, 514], ours: patched(totals(TWO_JOBS)) },
      { matches: [457], ours: patched({ sources: totalSources(FORGOTTEN) }) },
      { matches: [526], ours: patched(totals({ ...TWO_JOBS, users: whole([BOB.sub]) })) },
      { matches: [462, 481, 515], ours: patched(BY_SERVICE) },
      { matches: [463, 516], ours: patched(WITH_USERS) },
      { matches: [464, 517], ours: patched(BY_USER) },
      { matches: [465], ours: patched(BY_COUNTRY) },
      { matches: [466, 519], ours: table('rec-pub,,1,0,1,0,1,', 'rec-restr,,1,0,1,0,1,') },
      { matches: [467, 520], ours: table(`${ALICE.sub},unknown,1,`, `${BOB.sub},unknown,1,`) },
      { matches: [468], ours: table('unknown,,2,2,unknown:2') },
      { matches: [471, 478, 482, 522], ours: patched(NONE_OF_ONE) },
      { matches: [472], ours: patched({ sources: whole([FORGOTTEN]) }) },
      { matches: [473, 523, 524], ours: patched({ value: 0, sources: whole([REQUESTS]) }) },
      { matches: [474, 479], ours: patched({ sources: whole([HOURS]) }) },
    ],
  },
];

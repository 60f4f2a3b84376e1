import { ALICE } from '../../support/issuer-users.ts';
import { asked, challenged, created, empty, json, otherBody, refused } from './answers.ts';
import type { Difference } from './difference.ts';
import { executionLog, jobList } from './job-bodies.ts';

const BY_ALICE = { status: 201, user: ALICE.sub };

/** Invocations, jobs, their logs, and the execution log: faults that are not copied, and decisions. */
export const JOBS: readonly Difference[] = [
  {
    id: 'rejected-bearer-invokes-nothing',
    kind: 'defect',
    title: 'A bearer that is not accepted is 401 for an invocation, too',
    reason:
      'The Go manager carries on after the error and fails: 502 for a bearer that is no JWT, 500 for one that has ' +
      'expired or was not signed by its issuer.',
    // Defect R9.
    cases: [
      { matches: [180], ours: challenged(/is not a JWT/) },
      { matches: [182], ours: challenged(/no valid signature of its issuer/) },
      { matches: [316], ours: challenged(/has expired/) },
    ],
  },
  {
    id: 'hidden-jobs-are-not-found',
    kind: 'defect',
    title: 'Jobs of a service that the caller may not see are not found',
    reason:
      'The Go manager says 200 without a body, so that clients take the refusal for no jobs, an empty log, or jobs ' +
      'that were deleted. Here it is 404, as for the service itself.',
    // Defect R7.
    cases: [{ matches: [193, 203, 213], ours: empty(404) }],
  },
  {
    id: 'unknown-jobs-are-not-found',
    kind: 'defect',
    title: 'A job or a page of jobs that does not exist is not a fault of the server',
    reason: 'The Go manager fails with 500. Here a job is 404, and a page that was never given out is 400.',
    // Defect R5.
    cases: [
      { matches: [200, 207], ours: empty(404) },
      { matches: [196], ours: refused(400, /^this page is not known: take next_page from the page before/) },
    ],
  },
  {
    id: 'delegated-once',
    kind: 'defect',
    title: 'A job that comes again under its `X-Delegated-Job-ID` is no fault of the server',
    reason:
      'The Go manager fails with 500, so that the delegating manager runs it elsewhere as well. Here the same event from ' +
      'the same caller is 201 and still one job; another event under the same id, as in the recording, is 409.',
    // Defect F13.
    cases: [{ matches: [184], ours: refused(409, /^there is another job "rec-min-delegated-1" of "rec-min" already/) }],
  },
  {
    id: 'timestamps-leave-the-time-alone',
    kind: 'defect',
    title: '`timestamps` leaves the parsed time of an execution alone',
    reason:
      'With it the field `timestamp` of the Go manager holds the beginning of the line instead of its time. ' +
      'Here only `raw` begins with one more time.',
    // Defect R33.
    cases: [{ matches: [218], ours: otherBody(executionLog(BY_ALICE, '<time-nano> ')) }],
  },
  {
    id: 'invocation-names-its-job',
    kind: 'decision',
    title: 'The answer to an invocation says which job it is',
    reason:
      'The header `Location` is the address of the job, and `X-Oscar-Job-Id` its name. The Go manager leaves clients ' +
      'to guess from the list of jobs.',
    cases: [
      { matches: [168], ours: created('rec-min') },
      { matches: [169, 170], ours: created('rec-priv') },
      { matches: [171, 186, 187], ours: created('rec-pub') },
      { matches: [172], ours: created('rec-restr') },
      { matches: [183], ours: created('rec-min', 'rec-min-delegated-1') },
    ],
  },
  {
    id: 'invocation-asks-for-a-bearer',
    kind: 'decision',
    title: 'An invocation without a bearer is told to send one',
    reason:
      'It is 401 with `WWW-Authenticate: Bearer`, since a 401 needs such a header (RFC 9110). The Go manager sends none.',
    cases: [{ matches: [178, 179], ours: asked }],
  },
  {
    id: 'run-is-always-there',
    kind: 'decision',
    title: '`/run/{name}` needs no Knative',
    reason:
      'The manager waits for the script itself. In the Go manager the route is 404 without a serverless back-end.',
    cases: [{ matches: [15], ours: asked }],
  },
  {
    id: 'first-request-may-be-an-invocation',
    kind: 'decision',
    title: 'The first request of a user may be an invocation',
    reason:
      'The Go manager says 403 until the user has called a route below `/system`, which makes the account at the ' +
      'object store. Here there is nothing to make first.',
    cases: [{ matches: [600], ours: created('rec-pub') }],
  },
  {
    id: 'scripts-are-run',
    kind: 'decision',
    title: 'The log of a job is what its script printed',
    reason:
      'In the recording no script was run, and every log was the same two lines. Where scripts are plain processes, a ' +
      'line in front says that their image is not used.',
    cases: [
      { matches: [198, 202], ours: otherBody(/^oscar: this cluster runs scripts as plain processes; [^\n]+\nhi\n$/) },
      { matches: [199], ours: otherBody(/^<time-nano> oscar: this cluster runs [^\n]+\n<time-nano> hi\n$/) },
    ],
  },
  {
    id: 'owner-sees-what-runs-with-their-rights',
    kind: 'decision',
    title: 'The owner of a service sees the jobs that files have caused',
    reason:
      'They run with the rights of the owner. In the Go manager the keys of the uploader decide, and ' +
      'with an address that the manager has signed those are its own, so that only the administrator sees the job.',
    cases: [{ matches: [455], ours: json(jobList('rec-pub-<uuid>')) }],
  },
  {
    id: 'own-execution-log',
    kind: 'decision',
    title: '`/system/logs` has the invocations of all managers of the cluster',
    reason:
      'The Go manager reads the newest of its pods; here on Kubernetes it is all of them, by time, and otherwise what the ' +
      'one manager has answered since it was started. In the recording two lines stood in for the log of a pod. Where ' +
      'there was no run before, `previous` gives an empty list; in the recording it is 400, the answer of Kubernetes.',
    cases: [
      { matches: [217, 220, 222, 527], ours: otherBody(executionLog(BY_ALICE)) },
      { matches: [219], ours: json('{"logs":[]}') },
    ],
  },
];

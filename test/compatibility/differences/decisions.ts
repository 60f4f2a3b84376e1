import { challenged, empty, json, otherBody, patched, refused } from './answers.ts';
import type { Difference } from './difference.ts';
import { HIDDEN_KEYS, WITHOUT_MOUNT, WITHOUT_TOTALS } from './services.ts';

const INFO =
  /^\{"version":"[^"]+","git_commit":"","architecture":"[^"]+","kubernetes_version":"","manager_version":"[^"]+","manager_commit":"[^"]*","runtime":"process: [^"]+","isolation":\{[^}]+\}\}$/;
const FULL = { ...HIDDEN_KEYS, ...WITHOUT_TOTALS };

/** Where ours was chosen to be otherwise. */
export const DECISIONS: readonly Difference[] = [
  {
    id: 'own-page',
    kind: 'decision',
    title: 'The page at `/ui/` is that of this manager',
    reason: 'The recording was made with an empty page in the place of the dashboard.',
    cases: [{ matches: [7], ours: otherBody(/<title>OSCAR Manager/) }],
  },
  {
    id: 'own-version',
    kind: 'decision',
    title: '`/system/info` tells what runs here',
    reason:
      '`version` is the level of the OSCAR API that is implemented, and `kubernetes_version` is empty where there is no ' +
      'Kubernetes. Further keys: `manager_version` and `manager_commit` name this program, and `runtime` says so where ' +
      'scripts are plain processes, `isolation` what separates them.',
    cases: [{ matches: [32, 33], ours: otherBody(INFO) }],
  },
  {
    id: 'bearer-challenge',
    kind: 'decision',
    title: 'A rejected bearer is told why',
    reason:
      'It is always 401, and the header `WWW-Authenticate: Bearer` says what is wrong with it, as RFC 6750 has it. ' +
      'The Go manager sends no such header, one for Basic, or 400.',
    cases: [
      { matches: [25], ours: challenged(/no valid signature of its issuer/) },
      { matches: [134, 140, 176, 177], ours: challenged(/service token does not match this service/) },
      { matches: [135], ours: challenged(/is not a JWT/) },
      { matches: [314, 315, 317], ours: challenged(/has expired/) },
      { matches: [181], ours: challenged(/issuer of the access token is not accepted here/) },
      { matches: [584], ours: challenged(/accepts no access tokens/) },
      { matches: [554, 555, 556, 557], ours: challenged(/none of the groups that this cluster admits/) },
    ],
  },
  {
    id: 'spaces-before-a-token',
    kind: 'decision',
    title: 'Several spaces may stand between `Bearer` and the token',
    reason: 'HTTP allows it. The Go manager takes the token for unreadable.',
    cases: [{ matches: [594], ours: json(INFO) }],
  },
  {
    id: 'hidden-is-not-found',
    kind: 'decision',
    title: 'A service that the caller may not see is not found',
    reason:
      'The answer is 404, as for a service that does not exist, so that callers do not learn the names of the services of ' +
      'others. The Go manager says 403.',
    cases: [{ matches: [112, 116, 117, 118, 132, 146, 152, 165, 204, 229, 237], ours: empty(404) }],
  },
  {
    id: 'part-of-an-unknown-service-is-not-found',
    kind: 'decision',
    title: 'The deployment or a job of a service that does not exist is not found',
    reason: 'The answer is 404, as on every other route. The Go manager says 403.',
    cases: [{ matches: [209, 230, 231, 238], ours: empty(404) }],
  },
  {
    id: 'guest-may-not-delete',
    kind: 'decision',
    title: 'Deleting a public service of another owner is forbidden',
    reason: 'The caller sees the service, so the answer is 403 and says who may. The Go manager says 404.',
    cases: [{ matches: [540], ours: refused(403, /^only the owner of "rec-pub" or an administrator may do that$/) }],
  },
  {
    id: 'taken-name',
    kind: 'decision',
    title: 'A name that is taken is a conflict',
    reason:
      'The answer is always 409. The Go manager says 400, or 409 when it comes upon the secrets of the service first.',
    cases: [{ matches: [88, 89, 90], ours: refused(409, /^the name "rec-(min|full)" is taken on this cluster/) }],
  },
  {
    id: 'mistakes-are-400',
    kind: 'decision',
    title: 'Mistakes in a definition are 400',
    reason:
      'A name, a quantity, a provider or an image that cannot be used is found before anything is made, and the ' +
      'answer names all mistakes with their places. The Go manager fails half-way with 500.',
    cases: [
      {
        matches: [47],
        ours: refused(400, /^image: "busybox" is not in a repository that this cluster allows/),
      },
      { matches: [80], ours: refused(400, /^name: must be/) },
      { matches: [81], ours: refused(400, /^cpu: "abc" is not a quantity/) },
      { matches: [83], ours: refused(400, /^input\[0\]\./) },
      { matches: [84], ours: refused(400, /^output\[0\]\.storage_provider: webdav\.zz is not defined/) },
    ],
  },
  {
    id: 'log-level-is-checked',
    kind: 'decision',
    title: 'A log level that is not known is refused',
    reason: 'The answer is 400. The Go manager silently takes `INFO` instead.',
    cases: [{ matches: [147, 447, 529], ours: refused(400, /^log_level: "loud" is not one of/) }],
  },
  {
    id: 'numbers-for-quantities',
    kind: 'decision',
    title: '`cpu` and `memory` may be numbers',
    reason: 'People write `cpu: 1` in YAML, and it is clear what they mean. The Go manager wants a string.',
    cases: [{ matches: [74], ours: empty(201) }],
  },
  {
    id: 'one-json-value',
    kind: 'decision',
    title: 'A body is one JSON value',
    reason: 'Anything behind it is a mistake and refused with 400. The Go manager does not look at it.',
    cases: [{ matches: [589], ours: refused(400, /^the body is not JSON/) }],
  },
  {
    id: 'keys-are-not-shown-again',
    kind: 'decision',
    title: 'Keys of storage providers are shown as `hidden`',
    reason:
      'The Go manager shows them to everybody who sees the service. Here they are stored apart, and a definition that ' +
      'is sent back with `hidden` keeps them.',
    // `total_memory`, `total_cpu` and `mount` are not supported yet; `rec-odd` has a visibility that is refused.
    cases: [
      { matches: [60, 61, 62], ours: patched(FULL) },
      { matches: [107], ours: patched({ 'rec-full': FULL, 'rec-priv': WITHOUT_MOUNT }) },
      { matches: [110], ours: patched({ 'rec-full': FULL, 'rec-priv': WITHOUT_MOUNT, 'rec-odd': null }) },
    ],
  },
];

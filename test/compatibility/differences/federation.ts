import { challenged, empty, json, patched, refused } from './answers.ts';
import type { Difference } from './difference.ts';
import { type Patch, whole } from './patch.ts';
import { STILL_OF_ALICE } from './services.ts';

interface Member {
  readonly type: 'oscar' | 'endpoint';
  readonly cluster_id: string;
  readonly service_name: string;
  readonly url: string;
  readonly ssl_verify: boolean;
  readonly priority: number;
  readonly headers: Readonly<Record<string, string>>;
}

const member = (cluster_id: string, service_name: string, priority = 0): Member => ({
  type: 'oscar',
  cluster_id,
  service_name,
  url: '',
  ssl_verify: false,
  priority,
  headers: {},
});

const members = (...all: Member[]): Patch => ({ members: whole(all) });
const topology = (name: string, ...all: Member[]) => json(JSON.stringify({ topology: name, members: orNull(all) }));
const orNull = (all: readonly Member[]) => (all.length > 0 ? all : null);

const W1 = member('oscar-jetson', 'rec-w1', 10);
const W2 = member('oscar-graspi', 'rec-w2', 1);

/** Its headers are hidden, and its certificate is verified. */
const ANY_URL: Member = {
  ...member('', '', 3),
  type: 'endpoint',
  url: 'http://<address>/x',
  ssl_verify: true,
  headers: { 'X-K': '' },
};
const OF_BOB = [member('a', 'rec-none'), ANY_URL];

/** Services that belong to several clusters: faults that are not copied, and decisions. */
/** What a worker is told beyond that: where its coordinator is. It has no refresh token, since that has one holder. */
const worker = (revision: string): Patch => ({
  environment: { secrets: { refresh_token: null } },
  annotations: { 'oscar.grycap/federation-uid': '<uuid>', 'oscar.grycap/federation-revision': revision },
  clusters: { 'oscar-primary': { endpoint: '<endpoint>', auth_user: '', auth_password: '', ssl_verify: true } },
});

/** It is told of clusters that are in the federation, and of no others. */
const oneOfTwo = (revision: string): Patch => ({
  ...worker(revision),
  clusters: { 'oscar-graspi': null, 'oscar-primary': { ssl_verify: true } },
});

export const FEDERATION: readonly Difference[] = [
  {
    id: 'federation-of-a-hidden-service',
    kind: 'defect',
    title: 'Users who see a service can read its federation, and its owner can change it',
    reason:
      'The Go manager shows it to every user, and lets every user change it: to clusters of their own, for instance. ' +
      'Here a service that the caller may not see is 404.',
    // Defect F28.
    cases: [{ matches: [257, 609], ours: empty(404) }],
  },
  {
    id: 'members-are-changed-with-credentials',
    kind: 'defect',
    title: 'A caller whose bearer token is rejected cannot remove members',
    reason:
      'The Go manager writes an error, and removes the member all the same. Here it is 401, and the member stays.',
    // Defects S1 and F28.
    cases: [
      { matches: [610], ours: challenged(/is not a JWT/) },
      { matches: [611], ours: topology('star', ...OF_BOB) },
    ],
  },
  {
    id: 'why-a-member-cannot-be-had',
    kind: 'defect',
    title: 'Why a member cannot be had is told apart',
    reason:
      'The Go manager says 401 whatever is wrong. Here a cluster that is not known is 400, one that refuses the caller ' +
      '403, a name that is taken there 409, one that does not answer 504, and anything else over there 424.',
    // Defect F17.
    cases: [
      { matches: [99], ours: refused(504, /b\/q: unreachable: .*nothing listens there/) },
      { matches: [100], ours: refused(400, /^cluster "zz" is unknown: name it under clusters/) },
    ],
  },
  {
    id: 'failed-create-harms-nobody',
    kind: 'defect',
    title: 'A member that is there already is taken in, and not deleted',
    reason:
      'When a member of a new federation has the name already, the Go manager gives up and deletes that service, which ' +
      'was there before. Here a service of the same owner becomes the member, and is what it was when the federation ' +
      'ends; a service of another owner or federation is 409, and stays.',
    // Defect F22.
    cases: [
      { matches: [308], ours: empty(201) },
      { matches: [309], ours: json(/^\{"name":"rec-w2","cluster_id":"oscar-jetson",.*"group_id":"rec-star3",.*\}$/) },
      { matches: [310], ours: json(/^\{"name":"rec-star3",.*"service_name":"rec-w2",.*\}$/) },
    ],
  },
  {
    id: 'members-are-there-once',
    kind: 'defect',
    title: 'A member is in a federation once',
    reason: 'The Go manager adds one that is there a second time. Here it is changed to what was sent.',
    // Defect F27.
    cases: [
      { matches: [275, 276], ours: patched(members(W1, W2)) },
      { matches: [283, 284], ours: patched(members(W2)) },
    ],
  },
  {
    id: 'absent-members-are-told',
    kind: 'decision',
    title: 'A member that is to be changed or removed and is none is told',
    reason: 'It stands in `warnings`, and nothing is done about it. The Go manager says nothing.',
    cases: [
      {
        matches: [277],
        ours: json(
          JSON.stringify({
            topology: 'star',
            members: [W1, W2],
            warnings: ['zz/zz: is not a member and was ignored'],
          }),
        ),
      },
    ],
  },
  {
    id: 'refused-change-is-not-stored',
    kind: 'defect',
    title: 'A change of members that is refused is not stored',
    reason:
      'Without a refresh token the Go manager fails with 500, after it has stored the members. Here it is 400, and ' +
      'nothing has changed.',
    // Defect F29.
    cases: [
      { matches: [298], ours: refused(400, /^environment\.secrets\.refresh_token is required/) },
      { matches: [299], ours: topology('none') },
    ],
  },
  {
    id: 'new-member-is-made',
    kind: 'defect',
    title: 'A member that is added later is made there',
    reason:
      'The Go manager only updates it, which fails when it does not exist, and answers 200 with a text in the place of ' +
      'the JSON. Here it is made, and the answer is the usual one. A member that cannot be had now is made as soon as it ' +
      'can be, and stands in `warnings` until then.',
    // Defects F26 and F44.
    cases: [
      { matches: [300], ours: topology('star', member('oscar-jetson', 'rec-none')) },
      { matches: [607], ours: topology('star', ...OF_BOB) },
    ],
  },
  {
    id: 'members-end-with-their-coordinator',
    kind: 'defect',
    title: 'With a service its members are deleted',
    reason:
      'The Go manager leaves them behind on the other clusters. Here they go, too: those that were there before become ' +
      'what they were, and `?cascade=false` leaves all of them as services of their own.',
    // Defect F24.
    cases: [{ matches: [312], ours: empty(404) }],
  },
  {
    id: 'certificates-are-verified',
    kind: 'defect',
    title: 'Certificates of other clusters are verified unless the definition says otherwise',
    reason: 'A cluster without `ssl_verify` has `false` in the Go manager. Here it has `true`.',
    // Defect F30.
    cases: [{ matches: [303], ours: patched({ clusters: { 'oscar-primary': { ssl_verify: true } } }) }],
  },
  {
    id: 'headers-of-members',
    kind: 'decision',
    title: 'Headers of members are not shown again',
    reason:
      'They hold keys more often than not, so they are stored apart, and their values are shown as empty; a definition ' +
      'that is sent back with them keeps them. The Go manager shows them to everybody who sees the service.',
    // Certificates are verified.
    cases: [{ matches: [608], ours: patched(members(...OF_BOB)) }],
  },
  {
    id: 'no-headers-are-an-object',
    kind: 'decision',
    title: 'No headers of a member are an empty object',
    reason:
      'The Go manager says `null` in its answer to the request that brings the member, and `{}` in all others. Here it ' +
      'is always `{}`.',
    cases: [
      { matches: [269, 290], ours: patched(members({ ...W1, priority: 0 }, W2)) },
      { matches: [271, 292], ours: patched(members(W1, W2)) },
    ],
  },
  {
    id: 'all-members-are-removed',
    kind: 'decision',
    title: 'A `DELETE` without a body removes all members',
    reason: 'So do an empty list and one member with nothing in it. The Go manager says 400 where there is no body.',
    cases: [{ matches: [281], ours: topology('star') }],
  },
  {
    id: 'second-spelling-of-federation',
    kind: 'decision',
    title: '`/system/replicas/{name}` is another name for `/system/federation/{name}`',
    reason: 'The Go manager has no such route. Here a service that is not there is 404 without a body.',
    cases: [{ matches: [17], ours: empty(404) }],
  },
  {
    id: 'marks-of-workers',
    kind: 'decision',
    title: 'What a service that another cluster made says of itself',
    reason:
      'It also names its federation and the revision it has, knows where its coordinator is, with certificates that are ' +
      'verified, and has no refresh token: the Go manager sends it to all members of a mesh.',
    // Defect F36. In an update the Go manager loses what is of alice.
    cases: [
      { matches: [274], ours: patched(worker('2')) },
      { matches: [304], ours: patched(oneOfTwo('1')) },
      { matches: [306], ours: patched({ ...oneOfTwo('2'), ...STILL_OF_ALICE }) },
    ],
  },
  {
    id: 'token-of-somebody-else',
    kind: 'decision',
    title: 'A refresh token of another user',
    reason:
      'It is rejected with 403 and not stored, so that no user acts with the token of another. The Go manager accepts it.',
    // `dummy-token` is that of alice.
    cases: [
      {
        matches: [606],
        ours: refused(403, /^environment\.secrets\.refresh_token: this token was already sent by another user/),
      },
    ],
  },
];

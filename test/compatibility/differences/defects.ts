import { challenged, empty, patched, refused } from './answers.ts';
import type { Difference } from './difference.ts';
import { STILL_OF_ALICE, WITHOUT_MOUNT } from './services.ts';

/** Faults of the Go manager that ours does not copy. */
export const DEFECTS: readonly Difference[] = [
  {
    id: 'rejected-bearer-goes-no-further',
    kind: 'defect',
    title: 'A bearer that is not accepted gets nothing',
    reason:
      'The Go manager writes an error and then carries on, so that the answer to the request follows the error. ' +
      'Here the request ends with 401.',
    cases: [
      { matches: [23, 29, 31, 126, 261, 487], ours: challenged(/is not a JWT/) },
      { matches: [24], ours: challenged(/issuer of the access token is not accepted/) },
      { matches: [26], ours: challenged(/service token can only invoke/) },
    ],
  },
  {
    id: 'token-for-an-unknown-service',
    kind: 'defect',
    title: 'A service token for a service that does not exist is a wrong token',
    reason: 'The Go manager fails with 500. Here it is 401, as for any token that does not fit.',
    cases: [{ matches: [142], ours: challenged(/service token does not match this service/) }],
  },
  {
    id: 'visibility-is-checked',
    kind: 'defect',
    title: 'A visibility that is not known is refused',
    reason:
      'The Go manager takes any word and treats what it does not know, such as `Private`, as public for buckets, ' +
      'also those of a service. Here it must be `private`, `restricted` or `public`.',
    cases: [
      { matches: [106], ours: refused(400, /^visibility: "Private" is not one of private, restricted, public$/) },
      { matches: [369], ours: refused(400, /^visibility: "odd" is not one of private, restricted, public$/) },
    ],
  },
  {
    id: 'update-keeps-the-owner',
    kind: 'defect',
    title: 'An update keeps the owner, the virtual organisation and their labels',
    reason:
      'In the Go manager an update loses `vo` and the labels `owner_name` and `vo` unless it repeats them, and one by ' +
      'the administrator loses the owner. Here they stay.',
    cases: [
      { matches: [150], ours: patched({ ...STILL_OF_ALICE, ...WITHOUT_MOUNT }) },
      { matches: [162], ours: patched({ labels: { owner_name: 'oscar' }, owner: 'cluster_admin' }) },
      { matches: [164], ours: patched({ labels: { owner_name: 'oscar' } }) },
      { matches: [448, 451, 530, 533, 536, 538], ours: patched(STILL_OF_ALICE) },
    ],
  },
  {
    id: 'update-may-drop-a-bucket',
    kind: 'defect',
    title: 'An update may leave out a bucket',
    reason:
      'The Go manager stores the new definition and answers 500 all the same. Here it is 204, and the ' +
      'bucket stays, as a private one of its owner.',
    cases: [{ matches: [450, 535], ours: empty(204) }],
  },
  {
    id: 'namespace-is-the-managers',
    kind: 'defect',
    title: 'The namespace of a service is chosen by the manager',
    reason: 'The Go manager puts a service into any namespace that the client names. Here the key is ignored.',
    cases: [{ matches: [592], ours: patched({ namespace: 'oscar-svc-00000002' }) }],
  },
];

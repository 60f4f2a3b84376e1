import { json, patched, refused } from './answers.ts';
import {
  alsoOfAlice,
  FIRST_LIST_OF_ADMIN,
  holding,
  LAST_LIST_OF_ADMIN,
  LIST_OF_ALICE,
  LIST_OF_BOB,
  LONGER_LIST_OF_BOB,
  NO_QUOTA,
  NOT_SHARED_WITH_THE_OWNER,
  NOTHING,
  PRIVATE,
  RESTRICTED_TO_BOB_AND_CAROL,
  SECOND_LIST_OF_ADMIN,
} from './bucket-patches.ts';
import type { Difference } from './difference.ts';

const NOT_YOURS = /^bucket "[\w-]+" not found, or you have no access to it$/;
const NOT_THERE = /^there is no bucket "[\w-]+"$/;

/** One bucket, as it is shown: its name, its visibility, and how many objects. */
const shown = (name: string, visibility: string, objects: number) =>
  json(new RegExp(`^\\{"bucket_name":"${name}","visibility":"${visibility}",.*,"returned_items":${objects}\\}$`));

/** Buckets and addresses of objects: faults that are not copied, and decisions. */
export const BUCKETS: readonly Difference[] = [
  {
    id: 'bucket-is-shown-to-those-it-is-shared-with',
    kind: 'defect',
    title: 'A bucket is shown to users who may use it',
    reason:
      'The Go manager shows every user the names of the objects in every private or restricted bucket. Here that is ' +
      '403 for those with whom it is not shared.',
    cases: [{ matches: [383, 385], ours: refused(403, NOT_YOURS) }],
  },
  {
    id: 'bucket-is-changed-by-its-owner',
    kind: 'defect',
    title: 'A bucket is changed by its owner',
    reason:
      'Anybody may take over a public bucket of the Go manager and make it private; where it changes nothing, it says ' +
      '204 all the same. Here it is 403 for everybody but the owner and the administrator, and the bucket stays.',
    cases: [
      { matches: [423, 424, 444], ours: refused(403, NOT_YOURS) },
      { matches: [445], ours: shown('rec-b-p2', 'public', 0) },
    ],
  },
  {
    id: 'bucket-follows-its-service',
    kind: 'defect',
    title: 'The bucket of a service follows the service',
    reason:
      'The Go manager means to refuse a change of its visibility, and makes it; the next update of the service then ' +
      'fails and the bucket stays as it is. Here it is 403, and the bucket has the visibility of the service.',
    cases: [
      { matches: [426], ours: refused(403, /^the bucket "rec-restr" belongs to the service "rec-restr"/) },
      { matches: [449], ours: patched(RESTRICTED_TO_BOB_AND_CAROL) },
    ],
  },
  {
    id: 'bucket-with-a-folder',
    kind: 'defect',
    title: 'A bucket may be created with a folder in it',
    reason:
      'A bucket that was created as `bucket/folder` is lost in the Go manager: its owner neither finds it in the list ' +
      'nor may read it, whatever its visibility. Here it is a bucket like any other.',
    // In the lists: a visibility that was refused, a mount that is not there yet, isolated buckets, exact usage.
    cases: [
      { matches: [386, 425], ours: shown('rec-b-pub', 'public', 1) },
      { matches: [408], ours: json(/^\{"object_key":"x",.*"url":"<minio-endpoint>\/rec-b-pub\/x\?X-Amz-.*\}$/) },
      { matches: [380], ours: patched(LIST_OF_ALICE) },
      { matches: [381, 422], ours: patched(LIST_OF_BOB) },
      { matches: [416, 419], ours: patched(LONGER_LIST_OF_BOB) },
    ],
  },
  {
    id: 'own-isolated-bucket',
    kind: 'defect',
    title: 'Users may read their own bucket of a service with isolation by user',
    reason: 'The Go manager has it in their list, but 403 is all they get. Here it is a private bucket of theirs.',
    cases: [{ matches: [393], ours: shown('rec-iso-00000002-b', 'private', 2) }],
  },
  {
    id: 'administrators-bucket-may-be-shared',
    kind: 'defect',
    title: 'Buckets of the administrator may be shared',
    reason: 'The Go manager says 204 to that and does nothing. Here all users reach one that is made public.',
    cases: [{ matches: [431], ours: shown('rec-b-adm', 'public', 0) }],
  },
  {
    id: 'bucket-of-an-update-has-an-owner',
    kind: 'defect',
    title: 'A bucket that an update of a service brings belongs to the owner of the service',
    reason: 'In the Go manager it has no owner: it shows `cluster_admin`, and no service.',
    cases: [
      { matches: [452], ours: patched({ ...alsoOfAlice('rec-restr'), ...holding(0, 1) }) },
      { matches: [534], ours: patched({ ...alsoOfAlice('rec-upd'), ...holding(0, 1) }) },
    ],
  },
  {
    id: 'bucket-mistakes-are-the-clients',
    kind: 'defect',
    title: 'What is wrong in a request for a bucket is not a fault of the server',
    reason:
      'The Go manager says 500. Here a bucket that does not exist is 404 for the administrator and 403 for users, as ' +
      'one that is not theirs; a body without a name is 400, and so is a page that was never given out.',
    cases: [
      { matches: [391, 548], ours: refused(404, NOT_THERE) },
      { matches: [413], ours: refused(400, /^page: is not a page token of this manager/) },
      { matches: [427], ours: refused(403, NOT_YOURS) },
      { matches: [429], ours: refused(400, /^bucket_name: is required$/) },
    ],
  },
  {
    id: 'no-buckets-are-a-list',
    kind: 'defect',
    title: 'No buckets are an empty list',
    reason: 'The Go manager says `null` to the administrator and `[]` to users. Here it is always `[]`.',
    cases: [{ matches: [615], ours: json('[]') }],
  },
  {
    id: 'visibility-is-always-shown',
    kind: 'decision',
    title: 'The visibility of a bucket is always shown',
    reason:
      'The Go manager shows the administrator an empty visibility for private buckets of users, for isolated ones ' +
      'without an owner, and for the administrator’s own. Here everybody sees the same, real one.',
    // In the lists: what the other entries say, and quotas, which are not there yet.
    cases: [
      { matches: [362], ours: patched(FIRST_LIST_OF_ADMIN) },
      { matches: [379], ours: patched(SECOND_LIST_OF_ADMIN) },
      { matches: [387], ours: patched({ ...PRIVATE, ...NOTHING }) },
      { matches: [552], ours: patched(LAST_LIST_OF_ADMIN) },
    ],
  },
  {
    id: 'usage-is-exact',
    kind: 'decision',
    title: 'What a bucket holds is counted at once',
    reason:
      'In the Go manager `storage_usage` is what a scan in the background found, and `attribution` is `partial` until ' +
      'it came by. Here it is exact, and `attribution` is `complete`.',
    // Quotas are not there yet.
    cases: [
      { matches: [382, 384, 389, 442], ours: patched(NOTHING) },
      { matches: [412, 415, 418, 421], ours: patched(holding(10, 2)) },
      { matches: [531], ours: patched({ ...holding(0, 2), ...NO_QUOTA }) },
      { matches: [568], ours: patched({ ...NOTHING, ...NO_QUOTA }) },
      { matches: [573, 574], ours: patched({ ...holding(3, 3), ...NO_QUOTA }) },
    ],
  },
  {
    id: 'owner-needs-no-share',
    kind: 'decision',
    title: 'The owner of a bucket is not among those with whom it is shared',
    reason:
      'With isolation by user the Go manager adds the owner of the service to `allowed_users` of its buckets. Here ' +
      'they are the users that the definition names; the owner may do everything anyway.',
    // In the list: a mount that is not there yet.
    cases: [{ matches: [363], ours: patched(NOT_SHARED_WITH_THE_OWNER) }],
  },
];

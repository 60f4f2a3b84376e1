import { ALICE, BOB, CAROL } from '../../support/issuer-users.ts';
import { type Patch, whole } from './patch.ts';

/** What a bucket holds, counted now and not when a scan came by. */
export function holding(bytes: number, objects: number): Patch {
  const usage = { used: String(bytes), used_bytes: bytes, ...(objects > 0 && { objects }) };
  return { storage_usage: whole(usage), attribution: 'complete' };
}

export const NOTHING = holding(0, 0);

/** Quotas are not there yet. */
export const NO_QUOTA: Patch = { storage_quota: whole({ source: 'unset' }) };

export const PRIVATE: Patch = { visibility: 'private' };

export const RESTRICTED_TO_BOB_AND_CAROL: Patch = {
  visibility: 'restricted',
  allowed_users: whole([BOB.sub, CAROL.sub]),
};

/** Whose it is, in a list. */
const ofAlice = (service: string): Patch => ({
  owner: ALICE.sub,
  metadata: whole({ from_service: service, owner_name: 'Alice' }),
});

/** Whose it is, where one bucket is shown. */
export const alsoOfAlice = (service: string): Patch => ({
  owner: ALICE.sub,
  metadata: whole({ from_service: service, owner: ALICE.sub, owner_name: 'Alice' }),
});

/** A bucket that left the definition of its service: private to its owner. */
const LEFT: Patch = {
  ...PRIVATE,
  allowed_users: whole(null),
  owner: ALICE.sub,
  metadata: whole({ owner_name: 'Alice' }),
};

/** A visibility that is refused, and a mount that is not there yet. */
const NOT_MADE: Patch = { 'rec-b-odd': null, 'rec-mnt': null };

export const NOT_SHARED_WITH_THE_OWNER: Patch = { 'rec-iso': { allowed_users: whole([BOB.sub]) }, 'rec-mnt': null };

const ISOLATED_BUCKET_OF_BOB: Patch = {
  ...NOT_SHARED_WITH_THE_OWNER,
  'rec-iso-00000002-b': {
    ...PRIVATE,
    owner: BOB.sub,
    metadata: whole({ from_service: 'rec-iso', owner_name: BOB.sub }),
    ...holding(0, 2),
  },
};

const MADE_WITH_FOLDER: Patch = {
  'rec-b-pub': whole({
    bucket_name: 'rec-b-pub',
    visibility: 'public',
    allowed_users: null,
    owner: ALICE.sub,
    metadata: { owner_name: 'Alice' },
    storage_quota: { source: 'unset' },
    storage_usage: { used: '0', used_bytes: 0, objects: 1 },
    attribution: 'complete',
  }),
};

export const FIRST_LIST_OF_ADMIN: Patch = { ...ISOLATED_BUCKET_OF_BOB, 'rec-full': PRIVATE, 'rec-priv': PRIVATE };

export const SECOND_LIST_OF_ADMIN: Patch = {
  ...FIRST_LIST_OF_ADMIN,
  ...NOT_MADE,
  ...MADE_WITH_FOLDER,
  'rec-b-adm': { ...PRIVATE, ...NOTHING },
  'rec-b-priv': { ...PRIVATE, ...NOTHING },
  'rec-b-restr': NOTHING,
};

/** After some services and quotas came and went. */
export const LAST_LIST_OF_ADMIN: Patch = {
  ...NOT_MADE,
  ...MADE_WITH_FOLDER,
  'rec-full': { ...PRIVATE, ...NO_QUOTA },
  'rec-priv': { ...PRIVATE, ...NO_QUOTA },
  'rec-pub': NO_QUOTA,
  'rec-restr': { ...LEFT, ...NO_QUOTA },
  'rec-restr2': ofAlice('rec-restr'),
  'rec-upd2': { ...LEFT, ...holding(0, 1) },
};

export const LIST_OF_ALICE: Patch = {
  ...NOT_SHARED_WITH_THE_OWNER,
  ...NOT_MADE,
  ...MADE_WITH_FOLDER,
  'rec-b-priv': NOTHING,
  'rec-b-restr': NOTHING,
};

export const LIST_OF_BOB: Patch = {
  ...ISOLATED_BUCKET_OF_BOB,
  ...NOT_MADE,
  ...MADE_WITH_FOLDER,
  'rec-b-restr': NOTHING,
};

/** While `rec-b-priv` is shared with him. */
export const LONGER_LIST_OF_BOB: Patch = { ...LIST_OF_BOB, 'rec-b-priv': holding(10, 2) };

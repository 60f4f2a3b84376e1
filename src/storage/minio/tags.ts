import { CLUSTER_ADMIN } from '../../service/index.ts';
import type { NewBucket } from '../object-store.ts';

/** What the tags of a bucket say of it. */
export type Tagged = Pick<NewBucket, 'owner' | 'ownerName' | 'madeFor'>;

/**
 * Tags of the Go manager (contract §4.3), so that each finds the other's buckets, and one of ours: which service of that
 * name it was.
 */
const OWNER = 'owner';
const OWNER_NAME = 'owner_name';
const SERVICE = 'from_service';
const SERVICE_UID = 'oscar_service_uid';

/** The owner of a bucket of the administrator: of a service nobody, otherwise the manager by its name. */
export function tagsOf({ owner, ownerName, madeFor }: Tagged, managerName: string): Record<string, string> {
  const admins = madeFor ? '' : managerName;
  return {
    [OWNER]: owner === CLUSTER_ADMIN ? admins : escape(owner),
    [OWNER_NAME]: escape(ownerName),
    ...(madeFor && { [SERVICE]: escape(madeFor.service), [SERVICE_UID]: escape(madeFor.uid) }),
  };
}

/** A bucket without tags was made by somebody who administers the store. */
export function taggedBy(tags: Readonly<Record<string, string>>, managerName: string): Tagged {
  const given = unescape(tags[OWNER] ?? '');
  const owner = given === '' || given === managerName ? CLUSTER_ADMIN : given;
  const uid = unescape(tags[SERVICE_UID] ?? '');
  return {
    owner,
    ownerName: unescape(tags[OWNER_NAME] ?? owner),
    ...(uid !== '' && { madeFor: { uid, service: unescape(tags[SERVICE] ?? '') } }),
  };
}

/** Did a Go manager make it for the service of that name? Which one of that name, its tags do not say. */
export function isFromGo(tags: Readonly<Record<string, string>>, service: string): boolean {
  return tags[SERVICE_UID] === undefined && tags[SERVICE] === service;
}

/** A tag holds fewer characters than a uid: others are `=` and the digits of their bytes. */
function escape(text: string): string {
  return text.replace(/[^A-Za-z0-9 +\-._:/@]/gu, (character) =>
    Array.from(Buffer.from(character), (byte) => `=${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

function unescape(text: string): string {
  return text.replace(/(=[0-9A-F]{2})+/g, (escaped) => Buffer.from(escaped.replaceAll('=', ''), 'hex').toString());
}

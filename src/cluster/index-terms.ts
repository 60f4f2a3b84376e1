import type { Service } from '../service/index.ts';
import { inputFolders, outputFolders } from '../service/index.ts';
import type { IndexTerm } from './service-store.ts';

/**
 * The terms under which services are looked up. Every adapter indexes a service under `termsOf` it, so that "who sees
 * it", "whose input is this bucket" and "has this label" are look-ups, never scans (R18).
 */

/** Services this user sees beyond the public ones. */
export const visibleTo = (uid: string) => `viewer:${uid}` as IndexTerm;

export const visibleToAll = 'public' as IndexTerm;

/** Services that read from this bucket of the cluster's store. */
export const readsBucket = (bucket: string) => `input:${bucket}` as IndexTerm;

/** Services that read from it or write to it. */
export const usesBucket = (bucket: string) => `bucket:${bucket}` as IndexTerm;

/** The key is quoted so that `a=b` with `c` and `a` with `b=c` are two terms. */
export const labelled = (key: string, value: string) => `label:${JSON.stringify(key)}=${value}` as IndexTerm;

export function termsOf(service: Service): IndexTerm[] {
  const { definition, owner } = service;
  const viewers = definition.visibility === 'restricted' ? [owner, ...definition.allowed_users] : [owner];
  const inputs = inputFolders(service);
  const terms = [
    ...viewers.map(visibleTo),
    ...(definition.visibility === 'public' ? [visibleToAll] : []),
    ...inputs.map(({ bucket }) => readsBucket(bucket)),
    ...[...inputs, ...outputFolders(service)].map(({ bucket }) => usesBucket(bucket)),
    ...Object.entries(definition.labels).map(([key, value]) => labelled(key, value)),
  ];
  return [...new Set(terms)];
}

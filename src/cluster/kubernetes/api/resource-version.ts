/**
 * Is the first newer? The API long called its versions opaque, but they have always been the revisions of etcd, which
 * count, and since Kubernetes 1.35 that is a promise (KEP-5504). It is used to keep a late event from undoing a newer
 * state in memory, never to decide a write.
 */
export function isNewer(version: string, than: string): boolean {
  return version.length === than.length ? version > than : version.length > than.length;
}

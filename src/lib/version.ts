/**
 * Names one state of one record. Opaque: equal or not equal, never older or newer, since a database counts and the
 * Kubernetes API does not promise to.
 */
export type Version = string & { readonly __version: never };

/** Where a listing goes on. Opaque, and it may expire: then the listing starts again. */
export type Cursor = string & { readonly __cursor: never };

export interface Page<T> {
  items: T[];
  /** Absent on the last page. */
  next?: Cursor;
}

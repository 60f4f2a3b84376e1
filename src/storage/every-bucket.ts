import type { Bucket, BucketQuery, ObjectStore } from './object-store.ts';

/** All pages of a query, one bucket after the other. */
export async function* everyBucket(store: ObjectStore, query: Omit<BucketQuery, 'cursor'>): AsyncGenerator<Bucket> {
  let page = await store.buckets(query);
  yield* page.items;
  while (page.next !== undefined) {
    page = await store.buckets({ ...query, cursor: page.next });
    yield* page.items;
  }
}

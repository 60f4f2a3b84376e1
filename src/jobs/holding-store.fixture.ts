import type { JobKey, JobRecord } from '../model/job/index.ts';
import type { JobStore } from '../ports/index.ts';
import { changeJob } from './jobs.ts';
import { observedJobs } from './views/observed-store.ts';

/** A store of a cluster that lets jobs start when the test says so, as Kueue does. */
export interface HoldingStore extends JobStore {
  /** From now on it may start. */
  letIn(key: JobKey): Promise<void>;
  /** It may not, or not go on, for this reason. */
  hold(key: JobKey, why: string): Promise<void>;
}

/** Whatever is accepted is held at first, unless its service is named here. */
export function holdingStore(store: JobStore, free: readonly string[] = []): HoldingStore {
  const said = new Map<string, string | undefined>();
  const seen = (record: JobRecord): JobRecord => {
    const held = said.has(record.id) ? said.get(record.id) : 'waits for its queue';
    return held === undefined || free.includes(record.service) ? record : { ...record, held };
  };
  const say = async ({ service, id }: JobKey, held: string | undefined) => {
    said.set(id, held);
    // Followers of the changes see it, as through the watch of a cluster.
    await changeJob({ service, id }, store, ({ message }) => ({ message }));
  };
  return {
    ...observedJobs(store, []),
    letIn: (key) => say(key, undefined),
    hold: say,
    async accept(job, progress, event) {
      const { outcome, record } = await store.accept(job, progress, event);
      return { outcome, ...(record && { record: seen(record) }) };
    },
    async get(key) {
      const record = await store.get(key);
      return record && seen(record);
    },
    update: async (key, expected, change) => seen(await store.update(key, expected, change)),
    async *unfinished() {
      for await (const record of store.unfinished()) yield seen(record);
    },
    async changes(query) {
      const { items, cursor } = await store.changes(query);
      return { items: items.map(({ key, record }) => ({ key, ...(record && { record: seen(record) }) })), cursor };
    },
  };
}

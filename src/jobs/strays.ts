import type { Cursor } from '../cluster/index.ts';
import type { Jobs } from './jobs.ts';

/** Records that are read at a time: others get their turn in between. */
const PAGE = 200;

/**
 * Ends and forgets attempts that no job of a service names any more. Records go before what they name is gone, so a
 * manager that dies in between leaves scripts that run for nobody, and logs that nobody can ask for. Resolves to how
 * many there were.
 */
export async function forgetStrays(jobs: Pick<Jobs, 'runner' | 'store' | 'services'>): Promise<number> {
  // Before the records: whatever begins from now on is in its record first, and not in this list.
  const strays = new Set(await jobs.runner.list());
  for await (const service of serviceNames(jobs)) {
    if (strays.size === 0) return 0;
    for await (const name of attemptNames(service, jobs)) strays.delete(name);
  }
  for (const name of strays) {
    await jobs.runner.stop(name, 'service-removed');
    await jobs.runner.forget(name);
  }
  return strays.size;
}

async function* serviceNames({ services }: Pick<Jobs, 'services'>): AsyncGenerator<string> {
  let cursor: Cursor | undefined;
  do {
    const page = await services.list({ ...(cursor !== undefined && { cursor }) });
    for (const { service } of page.items) yield service.definition.name;
    cursor = page.next;
  } while (cursor !== undefined);
}

async function* attemptNames(service: string, { store }: Pick<Jobs, 'store'>): AsyncGenerator<string> {
  let cursor: Cursor | undefined;
  do {
    const page = await store.list({ service, limit: PAGE, ...(cursor !== undefined && { cursor }) });
    for (const { attempts } of page.items) for (const { name } of attempts) yield name;
    cursor = page.next;
  } while (cursor !== undefined);
}

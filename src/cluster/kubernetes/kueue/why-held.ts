import type { Workload } from './objects.ts';

/** Says on a Workload that we have deactivated it, because its job is on another cluster. */
export const ELSEWHERE = 'oscar.grycap/elsewhere';

/** Has its job left the queue, because another cluster has it? */
export const isElsewhere = (workload: Pick<Workload, 'metadata' | 'spec'> | undefined) =>
  workload?.spec.active === false && workload.metadata.annotations?.[ELSEWHERE] !== undefined;

/** Why a job waits in its queue, with the words of Kueue as far as it has said something. */
export function whyHeld(queue: string, workload: Pick<Workload, 'metadata' | 'spec' | 'status'> | undefined): string {
  const words = workload && wordsOf(workload);
  return `waits for its queue ${queue}${words ? `: ${words}` : ''}`;
}

/** Why a job that runs may not go on. */
export function whyEvicted(queue: string, workload: Pick<Workload, 'status'> | undefined): string {
  const said = workload?.status?.conditions?.find(({ type, status }) => type === 'Evicted' && status === 'True');
  return `its queue ${queue} does not let it go on${said?.message ? `: ${said.message}` : ''}`;
}

function wordsOf(workload: Pick<Workload, 'metadata' | 'spec' | 'status'>): string | undefined {
  const { conditions = [] } = workload.status ?? {};
  const of = (wanted: string) => conditions.find(({ type }) => type === wanted);
  if (isElsewhere(workload)) return 'it comes back from another cluster';
  if (workload.spec.active === false) return 'somebody has deactivated its Workload';
  const reserved = of('QuotaReserved');
  if (reserved?.status === 'True' && of('Admitted')?.status !== 'True') return 'it has its quota, and is being checked';
  return reserved?.status === 'False' ? reserved.message : undefined;
}

import type { Demand } from '../model/job/index.ts';
import { bytes, type Definition, millicores } from '../model/service/index.ts';

/** What a job of this service needs. The quantities were checked when the definition was read. */
export function serviceDemand({ cpu, memory, enable_gpu }: Definition): Demand {
  return { cpu: millicores(cpu) ?? 0, memory: bytes(memory) ?? 0, gpu: enable_gpu ? 1 : 0 };
}

/** How long one of its scripts may run, in seconds, instead of what the operator set. */
const TIMEOUT = 'oscar-manager/job-timeout';

/** Milliseconds. The operator's limit is the most that a service can ask for. */
export function serviceTimeout({ annotations }: Definition, usual: number): number {
  const asked = Number(annotations[TIMEOUT] ?? Number.NaN) * 1000;
  return asked > 0 ? Math.min(asked, usual) : usual;
}

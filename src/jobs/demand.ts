import type { Demand } from '../model/job/index.ts';
import { bytes, type Definition, millicores } from '../model/service/index.ts';

/** The resources that a job of this service needs. The quantities were validated when the definition was read. */
export function serviceDemand({ cpu, memory, enable_gpu }: Definition): Demand {
  return { cpu: millicores(cpu) ?? 0, memory: bytes(memory) ?? 0, gpu: enable_gpu ? 1 : 0 };
}

/** Annotation of a service: how long its scripts may run, in seconds, instead of the operator's limit. */
const TIMEOUT = 'oscar-manager/job-timeout';

/** In milliseconds. A service cannot exceed the operator's limit. */
export function serviceTimeout({ annotations }: Definition, usual: number): number {
  const asked = Number(annotations[TIMEOUT] ?? Number.NaN) * 1000;
  return asked > 0 ? Math.min(asked, usual) : usual;
}

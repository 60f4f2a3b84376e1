import { uuidV5 } from '../base/uuid.ts';

/** The space of the names of further attempts. It must never change. */
const SPACE = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260002';

/** The first attempt of a job has its name (design §4); further ones have names of their own that follow from it. */
export function attemptName(id: string, epoch: number): string {
  return epoch <= 1 ? id : `${id.slice(0, 16).replace(/-+$/, '')}-${uuidV5(SPACE, JSON.stringify([id, epoch]))}`;
}

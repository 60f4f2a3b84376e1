import { createHash } from 'node:crypto';
import { type PodBasis, type PodSettings, warmPodOf } from '../pod/pod-spec.ts';

/** What a pod that waits is good for: pods of one key differ in nothing but their names. As the value of a label. */
export function warmKey(service: string, basis: PodBasis, namespace: string, settings: PodSettings): string {
  const pod = warmPodOf(basis, { name: '', namespace }, settings);
  const text = JSON.stringify([service, pod]);
  return createHash('sha256').update(text).digest('hex').slice(0, 40);
}

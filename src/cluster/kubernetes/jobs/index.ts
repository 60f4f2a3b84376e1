export { KubernetesJobStore } from './job-store.ts';
export type { OutOfQueue } from './out-of-queue.ts';
export type { StatusMirror } from './status-mirror.ts';

export { KubernetesJobStore } from './job-store.ts';
export type { StatusMirror } from './status-mirror.ts';

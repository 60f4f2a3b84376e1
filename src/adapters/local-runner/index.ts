import type { DockerLauncher, DockerLauncherOptions } from './docker/index.ts';

export { type DockerSearch, findDocker } from './docker/find-docker.ts';
export type { Launcher } from './launcher.ts';
export { LocalCapacity } from './local-capacity.ts';
export { createLocalRunner } from './local-runner.ts';
export { describeIsolation, type Isolation, openSandbox, type Sandbox } from './process/isolation.ts';
export { createProcessLauncher } from './process/process-launcher.ts';

/** Loads the code for Docker only on machines that have it. */
export async function openDockerLauncher(options: DockerLauncherOptions): Promise<DockerLauncher> {
  const { createDockerLauncher } = await import('./docker/index.ts');
  return createDockerLauncher(options);
}

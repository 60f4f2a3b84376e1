import type { DockerLauncher, DockerLauncherOptions } from './docker/docker-launcher.ts';

export { type DockerSearch, findDocker } from './docker/engine/find-docker.ts';
export type { Launcher } from './launcher.ts';
export { createLocalRunner } from './local-runner.ts';
export { createProcessLauncher } from './process/index.ts';

/** Loaded only where there is Docker. */
export async function openDockerLauncher(options: DockerLauncherOptions): Promise<DockerLauncher> {
  const { createDockerLauncher } = await import('./docker/index.ts');
  return createDockerLauncher(options);
}
